package audit_test

import (
	"os"
	"regexp"
	"testing"
)

// plantedChecks reads which checks TestPlantedViolations names.
func plantedChecks(t *testing.T) map[string]bool {
	t.Helper()
	src, err := os.ReadFile("audit_test.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{"([a-z_]+)", "[^"]+", `).FindAllSubmatch(src, -1) {
		out[string(m[1])] = true
	}
	return out
}
