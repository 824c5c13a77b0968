package web

import (
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// lang is a language that the pages speak.
type lang string

const (
	english lang = "en"
	chinese lang = "zh-Hant"
)

var languages = language.NewMatcher([]language.Tag{language.English, language.TraditionalChinese})

// langCookieName keeps a language that was chosen by ?lang= where a page is come
// back to without it: from a bank, by a bookmark. The queue page's script reads it.
const langCookieName = "usher_lang"

// langOf picks the language of a page: ?lang= when it names one, then the one
// chosen before, then what the browser asks for, else English.
func langOf(r *http.Request) lang {
	tags, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		tags = nil
	}
	for _, asked := range []string{chosenBefore(r), r.URL.Query().Get("lang")} {
		if tag, err := language.Parse(asked); err == nil {
			tags = append([]language.Tag{tag}, tags...)
		}
	}
	_, i, _ := languages.Match(tags...)
	// Simplified Chinese reads Traditional rather than English.
	if i == 1 || len(tags) > 0 && strings.HasPrefix(tags[0].String(), "zh") {
		return chinese
	}
	return english
}

func chosenBefore(r *http.Request) string {
	c, err := r.Cookie(langCookieName)
	if err != nil {
		return ""
	}
	return c.Value
}

// texts are the words of the pages, by key. Every key is there in every language.
var texts = map[lang]map[string]string{
	english: {
		"otherLang":             "中文",
		"events":                "Events",
		"noEvents":              "There is nothing on sale at the moment.",
		"signIn":                "Sign in",
		"signOut":               "Sign out",
		"email":                 "E-mail address",
		"sendCode":              "Send me a code",
		"codeSent":              "We sent a code of six digits to this address. It is good for ten minutes.",
		"code":                  "Code from the mail",
		"back":                  "Back",
		"prices":                "Prices",
		"opensAt":               "Sale opens",
		"startsAt":              "Starts",
		"joinQueue":             "Join the queue",
		"choosePlaces":          "Choose places",
		"standing":              "Standing places",
		"quantity":              "Quantity",
		"stock.many":            "Available",
		"stock.few":             "Few left",
		"stock.soldOut":         "Sold out",
		"yourOrders":            "Your orders",
		"yourHolds":             "Your places are held",
		"sale.scheduled":        "Not on sale yet",
		"sale.open":             "On sale",
		"sale.paused":           "Paused",
		"sale.closed":           "Sale closed",
		"sale.cancelled":        "Cancelled",
		"sale.unavailable":      "Temporarily unavailable",
		"section":               "Section",
		"row":                   "Row",
		"seat":                  "Seat",
		"free":                  "free",
		"taken":                 "taken",
		"selected":              "Selected",
		"hold":                  "Hold these places",
		"pickSome":              "Pick 1 to 6 places.",
		"mapIsHint":             "The picture may be a few seconds old. Holding decides.",
		"timeLeft":              "Time left",
		"pay":                   "Pay",
		"release":               "Give the places back",
		"order":                 "Order",
		"total":                 "Total",
		"tickets":               "Tickets",
		"ticketsSoon":           "Your tickets are being issued. This page shows them as soon as they are there.",
		"print":                 "Print",
		"usedAt":                "Used",
		"cancelledTicket":       "Cancelled",
		"tryAgain":              "Try again",
		"goToBank":              "Continue to your bank",
		"state.payment_pending": "Payment in progress",
		"state.declined":        "The payment was declined. Your places are still held: you can try again.",
		"state.voiding":         "We could not complete this order and are giving the payment back.",
		"state.confirmed":       "The places are yours.",
		"state.voided":          "This order was not completed. Nothing was charged.",
		"state.lapsed":          "This order was not paid in time. Nothing was charged.",
		"state.cancelled":       "This order was cancelled.",
		"pay.unknown":           "We have no answer from the payment provider yet. Your places stay yours until we know. Do not pay again.",
		"pay.processing":        "We are waiting for the payment provider.",
		"pay.action_required":   "One more step is needed.",
		"pay.authorized":        "Your payment is authorised.",
		"pay.captured":          "Paid.",
		"pay.not_required":      "Nothing to pay.",
		"notFound":              "There is nothing at this address.",
		"unavailable":           "Temporarily unavailable. Please try again in a moment.",
		"admissionNeeded":       "This event has a queue. Join it first.",
		"loading":               "One moment",
		"problems":              "What the codes mean",
	},
	chinese: {
		"otherLang":             "English",
		"events":                "活動",
		"noEvents":              "目前沒有販售中的活動。",
		"signIn":                "登入",
		"signOut":               "登出",
		"email":                 "電子郵件地址",
		"sendCode":              "寄驗證碼給我",
		"codeSent":              "六位數驗證碼已寄到這個地址，十分鐘內有效。",
		"code":                  "信中的驗證碼",
		"back":                  "返回",
		"prices":                "票價",
		"opensAt":               "開賣時間",
		"startsAt":              "開演時間",
		"joinQueue":             "加入排隊",
		"choosePlaces":          "選擇票種",
		"standing":              "無座位區",
		"quantity":              "張數",
		"stock.many":            "尚有票",
		"stock.few":             "所剩不多",
		"stock.soldOut":         "已售完",
		"yourOrders":            "您的訂單",
		"yourHolds":             "已為您保留位置",
		"sale.scheduled":        "尚未開賣",
		"sale.open":             "販售中",
		"sale.paused":           "暫停販售",
		"sale.closed":           "已截止",
		"sale.cancelled":        "已取消",
		"sale.unavailable":      "暫時無法使用",
		"section":               "區域",
		"row":                   "排",
		"seat":                  "座位",
		"free":                  "可選",
		"taken":                 "已被選走",
		"selected":              "已選",
		"hold":                  "保留這些位置",
		"pickSome":              "請選 1 到 6 個位置。",
		"mapIsHint":             "畫面可能晚幾秒，以保留結果為準。",
		"timeLeft":              "剩餘時間",
		"pay":                   "付款",
		"release":               "放棄保留",
		"order":                 "訂單",
		"total":                 "總計",
		"tickets":               "票券",
		"ticketsSoon":           "票券正在產生，完成後會顯示在這裡。",
		"print":                 "列印",
		"usedAt":                "已使用",
		"cancelledTicket":       "已取消",
		"tryAgain":              "再試一次",
		"goToBank":              "前往銀行頁面",
		"state.payment_pending": "付款處理中",
		"state.declined":        "付款遭拒，位置仍為您保留，可以再試一次。",
		"state.voiding":         "訂單未能完成，正在退回款項授權。",
		"state.confirmed":       "位置已屬於您。",
		"state.voided":          "訂單未完成，沒有扣款。",
		"state.lapsed":          "未在時限內付款，沒有扣款。",
		"state.cancelled":       "訂單已取消。",
		"pay.unknown":           "付款服務尚未回覆。在確認之前位置仍為您保留，請勿重複付款。",
		"pay.processing":        "正在等候付款服務。",
		"pay.action_required":   "還需要一個步驟。",
		"pay.authorized":        "付款已授權。",
		"pay.captured":          "已付款。",
		"pay.not_required":      "無須付款。",
		"notFound":              "這裡沒有內容。",
		"unavailable":           "暫時無法使用，請稍後再試。",
		"admissionNeeded":       "這場活動需要排隊，請先加入。",
		"loading":               "請稍候",
		"problems":              "代碼說明",
	},
}
