package audit_test

import (
	"os"
	"regexp"
	"testing"
)

// plantedChecks reads what TestPlantedViolations plants for each check.
func plantedChecks(t *testing.T) map[string][]string {
	t.Helper()
	src, err := os.ReadFile("audit_test.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`\{"([a-z_]+)", "([^"]+)", `).FindAllSubmatch(src, -1) {
		out[string(m[1])] = append(out[string(m[1])], string(m[2]))
	}
	return out
}
