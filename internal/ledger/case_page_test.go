package ledger_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every case on the page names tests that hold it, each where it is.
func TestCasesNameTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	define := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for root, prefix := range map[string]string{"..": "", "../../cmd": "cmd/"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, m := range define.FindAllSubmatch(raw, -1) {
				defined[prefix+filepath.ToSlash(folder)+"."+string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cases, named := 0, regexp.MustCompile("`([^`]*Test\\w+)`")
	for line := range strings.Lines(string(page)) {
		tests := named.FindAllStringSubmatch(line, -1)
		if strings.HasPrefix(line, "| P") {
			cases++
			if len(tests) == 0 {
				t.Errorf("no test holds %.6s", line)
			}
		}
		for _, m := range tests {
			if !defined[m[1]] {
				t.Errorf("%s does not exist", m[1])
			}
		}
	}
	if cases < 20 {
		t.Errorf("the page has only %d cases", cases)
	}
}
