package mailcatch

import (
	"bytes"
	"os"
	"testing"
)

func TestStoreIsBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	const extra = 2*mailsMax + 10
	for range mailsMax + extra {
		if err := s.add("a@example.com", []string{"b@example.com"}, []byte("Subject: x\n\n")); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.entries) != mailsMax || s.entries[0].ID != extra+1 || s.get(extra) != nil || s.get(extra+1) == nil {
		t.Errorf("%d mails, the oldest is %d", len(s.entries), s.entries[0].ID)
	}
	content, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(content, []byte("\n")); lines != s.lines || lines > 2*mailsMax {
		t.Errorf("%d lines in the file, %d counted", lines, s.lines)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if err := s.add("a@example.com", nil, nil); err == nil {
		t.Error("a closed store takes mails")
	}
	again, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if len(again.entries) != mailsMax || again.lastID != mailsMax+extra {
		t.Errorf("%d mails after a restart, the last is %d", len(again.entries), again.lastID)
	}
}

func TestStoreIsBoundedInBytes(t *testing.T) {
	s := &store{changed: make(chan struct{})}
	big := make([]byte, bytesMax/4)
	for i := range 10 {
		s.push(&entry{record: record{ID: int64(i + 1), Raw: big}})
	}
	if len(s.entries) != 4 || s.bytes != bytesMax || s.entries[0].ID != 7 {
		t.Errorf("%d mails of %d bytes", len(s.entries), s.bytes)
	}
	s.push(&entry{record: record{ID: 11, Raw: make([]byte, bytesMax+1)}})
	if len(s.entries) != 1 || s.entries[0].ID != 11 {
		t.Errorf("%d mails after one that fills the store", len(s.entries))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("Subject: x\n\nbody"))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/html\n\n<p>\n--B--"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := parse(raw)
		_ = m.document()
		if len(m.parts) > partsMax {
			t.Errorf("%d parts", len(m.parts))
		}
	})
}
