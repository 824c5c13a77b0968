package notify

import (
	"fmt"
	"strings"
	"time"
)

// texts are the words of the mails in one language. Verbs (%s) are filled by the
// templates.
type texts map[string]string

var catalogue = map[string]texts{
	"en": {
		"lang":          "en",
		"codeSubject":   "%s is your sign-in code",
		"codeTitle":     "Your sign-in code",
		"codeIntro":     "Enter this code to sign in to %s:",
		"codeEnds":      "It works once and for 10 minutes.",
		"codeIgnore":    "If you did not ask for it, somebody may have mistyped their address: just ignore this mail. Never pass the code on, we do not ask for it.",
		"ticketSubject": "Your tickets: %s",
		"ticketTitle":   "Your tickets",
		"hello":         "Hello %s,",
		"helloNobody":   "Hello,",
		"ticketIntro":   "thank you for your order. Every person needs one of these codes at the gate; each opens it once.",
		"ticketKeep":    "Keep this mail to yourself: whoever shows a code first gets in.",
		"event":         "Event",
		"venue":         "Venue",
		"starts":        "Starts",
		"order":         "Order",
		"places":        "Places",
		"ticket":        "Ticket %d of %d",
		"seat":          "Seat",
		"tier":          "Category",
		"code":          "Code",
		"qr":            "QR code of ticket %d",
		"open":          "Show my order",
		"openHint":      "Your tickets are also on your order's page, to show or to print:",
		"footer":        "This mail was sent automatically.",
	},
	"zh-Hant": {
		"lang":          "zh-Hant",
		"codeSubject":   "您的登入驗證碼：%s",
		"codeTitle":     "您的登入驗證碼",
		"codeIntro":     "請輸入這組驗證碼，登入 %s：",
		"codeEnds":      "驗證碼只能使用一次，10 分鐘內有效。",
		"codeIgnore":    "如果不是您本人要求，可能是有人打錯了信箱，請直接略過這封信。請勿把驗證碼告訴任何人，我們不會向您索取。",
		"ticketSubject": "您的票券：%s",
		"ticketTitle":   "您的票券",
		"hello":         "%s 您好：",
		"helloNobody":   "您好：",
		"ticketIntro":   "感謝您的訂購。入場時每人需要一組代碼，每組只能使用一次。",
		"ticketKeep":    "請妥善保管這封信：代碼先出示者先入場。",
		"event":         "活動",
		"venue":         "地點",
		"starts":        "開始時間",
		"order":         "訂單",
		"places":        "張數",
		"ticket":        "第 %d 張，共 %d 張",
		"seat":          "座位",
		"tier":          "票種",
		"code":          "代碼",
		"qr":            "第 %d 張票的 QR 碼",
		"open":          "查看我的訂單",
		"openHint":      "您也可以在訂單頁面出示或列印票券：",
		"footer":        "這封信由系統自動寄出。",
	},
}

func textsOf(locale string) texts {
	if t, ok := catalogue[locale]; ok {
		return t
	}
	return catalogue["en"]
}

var weekdays = [7]string{"日", "一", "二", "三", "四", "五", "六"}

// eventTime writes an instant in the event's zone, with the zone's name: wherever
// and whenever the mail is read, it is the time on the venue's clock. An unknown
// zone falls back to UTC and says so.
func eventTime(t time.Time, zone, lang string) string {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		loc, zone = time.UTC, "UTC"
	}
	t = t.In(loc)
	if zone != "UTC" {
		zone = "UTC" + t.Format("-07:00") + " " + zone
	}
	if lang == "zh-Hant" {
		return fmt.Sprintf("%d年%d月%d日（星期%s）%s（%s）", t.Year(), t.Month(), t.Day(), weekdays[t.Weekday()], t.Format("15:04"), zone)
	}
	return t.Format("Monday, 2 January 2006, 15:04") + " (" + zone + ")"
}

// isDirectional reports the explicit direction marks: what a name needs of them
// is done by isolating it, and an unclosed one would turn the text around it.
func isDirectional(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

func withoutMarks(s string) string {
	return strings.Map(func(r rune) rune {
		if isDirectional(r) {
			return -1
		}
		return r
	}, s)
}

// isolate keeps the direction of a name in plain text to itself, as <bdi> does
// in HTML: first strong isolate, name, pop.
func isolate(s string) string {
	if s == "" {
		return ""
	}
	return "\u2068" + s + "\u2069"
}
