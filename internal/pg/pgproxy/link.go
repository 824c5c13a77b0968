package pgproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// The request codes that stand where a start-up packet's version does.
const (
	codeCancel = 80877102
	codeSSL    = 80877103
	codeGSS    = 80877104
)

// messageMax bounds a message; tests send far smaller ones.
const messageMax = 64 << 20

var errMessageSize = errors.New("message size out of bounds")

// link is one client's connection with its own connection to the server.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	// statements maps prepared statements to their text. Only fromClient uses it.
	statements map[string]string
	once       sync.Once
	ended      chan struct{}

	mu sync.Mutex
	// swallow drops the server's answer and ends the link.
	swallow bool
	// refusal is the SQLSTATE that the next answer ends with.
	refusal string
	// quiet keeps back what the client sends, mute what the server sends.
	quiet, mute chan struct{}
}

func (l *link) end() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range []*chan struct{}{&l.quiet, &l.mute} {
		if *c != nil {
			close(*c)
			*c = nil
		}
	}
}

// wait returns when nothing keeps this direction back, or false when the link
// has ended.
func (l *link) wait(own *chan struct{}) bool {
	for {
		l.mu.Lock()
		c := *own
		l.mu.Unlock()
		if c == nil {
			c = l.proxy.hushed()
		}
		if c == nil {
			return true
		}
		select {
		case <-c:
		case <-l.ended:
			return false
		}
	}
}

// fromClient passes on what the client sends, statement by statement.
func (l *link) fromClient() {
	defer l.end()
	r := bufio.NewReader(l.client)
	if err := l.start(r); err != nil {
		return
	}
	// skipping drops the rest of a refused batch, up to its Sync.
	skipping := false
	for {
		kind, m, err := readMessage(r)
		if err != nil || !l.wait(&l.quiet) {
			return
		}
		if skipping && kind != 'S' {
			continue
		}
		skipping = false
		if sql, executes := l.statement(kind, m); executes {
			if do, meets := l.proxy.meet(sql); meets {
				if m, skipping = l.act(do, kind, m); m == nil {
					return
				}
			}
		}
		if skipping {
			continue
		}
		if _, err := l.server.Write(m); err != nil {
			return
		}
	}
}

// start passes the start-up packet on and declines encryption, so that
// everything after it can be read.
func (l *link) start(r *bufio.Reader) error {
	for {
		head, err := r.Peek(8)
		if err != nil {
			return err
		}
		size, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if size < 8 || size > messageMax {
			return errMessageSize
		}
		m := make([]byte, size)
		if _, err := io.ReadFull(r, m); err != nil {
			return err
		}
		if code == codeSSL || code == codeGSS {
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		}
		if !l.wait(&l.quiet) {
			return io.EOF
		}
		if _, err := l.server.Write(m); err != nil {
			return err
		}
		if code == codeCancel {
			// The server acts on it and hangs up.
			<-l.ended
			return io.EOF
		}
		return nil
	}
}

// statement returns the text that a message executes. Parse only names a text.
func (l *link) statement(kind byte, m []byte) (sql string, executes bool) {
	body := m[5:]
	switch kind {
	case 'Q':
		return text(body), true
	case 'P':
		name := text(body)
		l.statements[name] = text(body[len(name)+1:])
	case 'B':
		portal := text(body)
		return l.statements[text(body[len(portal)+1:])], true
	}
	return "", false
}

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:i])
	}
	return string(b)
}

// act does what the fault says and returns what is passed on instead of the
// message; nil says that the link is over. skip drops the batch up to its Sync.
func (l *link) act(do Action, kind byte, m []byte) (pass []byte, skip bool) {
	goesOn := true
	switch do.kind {
	case reset:
		goesOn = false
	case delay:
		goesOn = l.pause(do.delay)
	case late:
		_ = l.client.Close()
		goesOn = l.pause(do.delay)
	case silence:
		l.set(func() { l.quiet, l.mute = make(chan struct{}), make(chan struct{}) })
		goesOn = l.wait(&l.quiet)
	case silenceAnswer:
		l.set(func() { l.mute = make(chan struct{}) })
	case swallowAnswer:
		l.set(func() { l.swallow = true })
	case refuse:
		l.set(func() { l.refusal = do.sqlState })
		if kind == 'B' {
			return m, true
		}
		// A Sync in place of the simple query: its answer carries the error.
		return []byte{'S', 0, 0, 0, 4}, false
	}
	if !goesOn {
		return nil, false
	}
	return m, false
}

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *link) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ended:
		return false
	}
}

// fromServer passes on what the server answers.
func (l *link) fromServer() {
	defer l.end()
	r := bufio.NewReader(l.server)
	w := bufio.NewWriter(l.client)
	for {
		kind, m, err := readMessage(r)
		if err != nil || !l.wait(&l.mute) {
			return
		}
		l.mu.Lock()
		swallow, refusal := l.swallow, l.refusal
		if kind == 'Z' {
			l.refusal = ""
		}
		l.mu.Unlock()
		switch {
		case swallow && kind == 'Z':
			return
		case swallow:
			continue
		case refusal != "" && kind == 'Z':
			_, _ = w.Write(errorResponse(refusal))
			// The server's transaction is open; to its client it has failed.
			m[5] = failed(m[5])
		}
		_, _ = w.Write(m)
		if r.Buffered() == 0 || kind == 'Z' {
			if err := w.Flush(); err != nil {
				return
			}
		}
	}
}

// failed is the transaction state after an error.
func failed(state byte) byte {
	if state == 'T' {
		return 'E'
	}
	return state
}

func errorResponse(sqlState string) []byte {
	var b bytes.Buffer
	for _, field := range []string{"SERROR", "VERROR", "C" + sqlState, "Minjected by pgproxy"} {
		b.WriteString(field)
		b.WriteByte(0)
	}
	b.WriteByte(0)
	return append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(b.Len()+4)), b.Bytes()...)
}

func readMessage(r *bufio.Reader) (kind byte, m []byte, err error) {
	head, err := r.Peek(5)
	if err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > messageMax {
		return 0, nil, errMessageSize
	}
	m = make([]byte, size+1)
	if _, err := io.ReadFull(r, m); err != nil {
		return 0, nil, err
	}
	return m[0], m, nil
}
