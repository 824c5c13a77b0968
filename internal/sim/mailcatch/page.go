package mailcatch

import (
	"bytes"
	"log/slog"
	"net/http"

	"golang.org/x/text/language"
)

// texts are the words of the pages in one language.
type texts map[string]string

var catalogue = []texts{
	{
		"lang": "en", "title": "Caught mail", "intro": "Every mail this system sends ends here. Nothing is delivered.",
		"empty": "No mails yet.", "none": "No mail matches.", "search": "Search", "searchHint": "Recipient or subject",
		"from": "From", "to": "To", "date": "Received", "files": "Files", "text": "Text", "html": "Message", "raw": "Source",
		"back": "All mails", "noSubject": "(no subject)", "skip": "Skip to the mails", "pick": "Choose a mail from the list.",
	},
	{
		"lang": "zh-Hant", "title": "郵件收容站", "intro": "系統寄出的每封信都停在這裡，不會真的送出。",
		"empty": "還沒有信件。", "none": "沒有符合的信件。", "search": "搜尋", "searchHint": "收件人或主旨",
		"from": "寄件人", "to": "收件人", "date": "收到時間", "files": "附件", "text": "純文字", "html": "內容", "raw": "原始內容",
		"back": "所有信件", "noSubject": "（無主旨）", "skip": "跳到信件列表", "pick": "請從列表選一封信。",
	},
}

var languages = language.NewMatcher([]language.Tag{language.English, language.TraditionalChinese})

func textsOf(r *http.Request) texts {
	_, i := language.MatchStrings(languages, r.Header.Get("Accept-Language"))
	return catalogue[i]
}

// page is what the template shows: the list, and one mail if one is chosen.
type page struct {
	T     texts
	Query string
	Mails []Mail
	Open  *MailDetail
}

func (c *Catcher) pageList(w http.ResponseWriter, r *http.Request) { c.render(w, r, nil) }

func (c *Catcher) pageMail(w http.ResponseWriter, r *http.Request) {
	if e := c.mail(w, r); e != nil {
		d := detail(e)
		c.render(w, r, &d)
	}
}

func (c *Catcher) render(w http.ResponseWriter, r *http.Request, open *MailDetail) {
	p := page{T: textsOf(r), Query: r.FormValue("q"), Open: open}
	found, _ := c.store.find(query{text: p.Query, limit: listLimit})
	for _, e := range found {
		p.Mails = append(p.Mails, summary(e))
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "page.html", p); err != nil {
		slog.Error("mail page not rendered", "error", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept-Language")
	write(w, b.Bytes())
}
