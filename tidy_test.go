package usher_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers lists the house from the bottom up. A package may import the root
// package and any package of a lower layer, never a sibling.
var layers = [][]string{
	{"internal/fault"},
	{"internal/pg"},
	{"internal/work", "internal/token", "internal/pg/embedded"},
	{"internal/ledger", "internal/payment", "internal/audit"},
	{"internal/payment/stripe"},
	{"internal/waitingroom", "internal/account", "internal/redemption", "internal/checkout", "internal/seatmap", "internal/notify"},
	{"internal/catalog"},
	{"internal/web"},
	{"internal/sim/paysim", "internal/sim/mailcatch", "internal/sim/crowd", "internal/bench/baseline"},
	{"internal/bench"},
	{"cmd/usher", "internal/bench/baseline/compare"},
}

// narrow lists packages that may import less than their layer allows.
var narrow = map[string][]string{
	"internal/fault":   {},
	"internal/pg":      {"internal/fault"},
	"internal/payment": {},
	"internal/audit":   {"internal/pg"},
	"internal/token":   {"internal/pg"},
	// Simulators stand outside: they know usher by its wire formats alone.
	"internal/sim/paysim":    {},
	"internal/sim/mailcatch": {},
	"internal/sim/crowd":     {},
	// Siblings of checkout need no provider, and only readers of the outbox know the ledger.
	"internal/waitingroom": {"internal/pg", "internal/token", "internal/fault", "internal/work"},
	"internal/account":     {"internal/pg", "internal/token", "internal/fault", "internal/work"},
}

// testSupport may be imported by tests only; it imports what it sets up.
var testSupport = map[string][]string{
	"internal/pg/pgtest":               {"internal/pg", "internal/pg/embedded"},
	"internal/pg/pgtest/withpostgres":  {"internal/pg/pgtest"},
	"internal/pg/embedded/postgresbin": {"internal/pg/embedded"},
	"internal/pg/pgproxy":              {},
	"internal/ledger/verify":           {"internal/ledger", "internal/pg"},
	"internal/sim/paysim/paysimtest":   {"internal/sim/paysim"},
	"internal/seatmap/linetest":        {},
}

type source struct {
	dir, path string
	file      *ast.File
	set       *token.FileSet
	lines     []string
}

// sources parses every Go file of the module that is no test.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() != "." && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, raw, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{filepath.ToSlash(filepath.Dir(path)), filepath.ToSlash(path), f, set, strings.Split(string(raw), "\n")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files were found", len(out))
	}
	return out
}

func layerOf(dir string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, dir) })
}

// Imports point down.
func TestImportEdges(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			to, ours := strings.CutPrefix(path, "usher/")
			if s.dir == "." {
				if ours || strings.Contains(strings.Split(path, "/")[0], ".") {
					t.Errorf("%s imports %s: the root package uses the standard library only", s.path, path)
				}
				continue
			}
			if ours && !edgeAllowed(s.dir, to) {
				t.Errorf("%s must not import %s", s.path, to)
			}
		}
		if s.dir != "." && testSupport[s.dir] == nil && layerOf(s.dir) < 0 {
			t.Errorf("%s has no place in the house: name it in layers", s.dir)
		}
	}
}

func edgeAllowed(from, to string) bool {
	if uses, ok := testSupport[from]; ok {
		return slices.Contains(uses, to)
	}
	if only, ok := narrow[from]; ok {
		return slices.Contains(only, to)
	}
	return layerOf(to) >= 0 && layerOf(to) < layerOf(from)
}

var (
	reWrite   = regexp.MustCompile(`(?i)\b(?:INSERT INTO|UPDATE|DELETE FROM|TRUNCATE)\s+([a-z_]+)`)
	reCreate  = regexp.MustCompile(`(?m)^CREATE (?:UNLOGGED )?TABLE ([a-z_]+)`)
	reCopy    = regexp.MustCompile(`pgx\.Identifier\{"([a-z_]+)"\}`)
	notTables = []string{"set", "of", "skip", "nowait"}
)

// A table has exactly one writing package.
func TestOneWriterPerTable(t *testing.T) {
	tables := map[string]bool{}
	files, err := filepath.Glob("internal/pg/migrations/*/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reCreate.FindAllStringSubmatch(string(raw), -1) {
			tables[m[1]] = true
		}
	}
	writers := map[string][]string{}
	for _, s := range sources(t) {
		// Benchmarks write into databases of their own, the baseline the naive way.
		if strings.HasPrefix(s.dir, "internal/bench") {
			continue
		}
		text := strings.Join(s.lines, "\n")
		for _, m := range append(reWrite.FindAllStringSubmatch(text, -1), reCopy.FindAllStringSubmatch(text, -1)...) {
			if name := strings.ToLower(m[1]); tables[name] && !slices.Contains(notTables, name) && !slices.Contains(writers[name], s.dir) {
				writers[name] = append(writers[name], s.dir)
			}
		}
	}
	for table := range tables {
		if len(writers[table]) != 1 {
			t.Errorf("table %s is written by %v, want one package", table, writers[table])
		}
	}
}

// Only the Commit helper commits.
func TestOnlyPgCommits(t *testing.T) {
	re := regexp.MustCompile(`\b(?:tx|t)\.Commit\(`)
	for _, s := range sources(t) {
		if s.path == "internal/pg/tx.go" || s.dir == "internal/bench/baseline" {
			continue
		}
		for i, line := range s.lines {
			if re.MatchString(line) {
				t.Errorf("%s:%d commits by itself", s.path, i+1)
			}
		}
	}
}

const (
	functionLinesMax = 70
	fileLinesMax     = 800
)

// Functions fit on a screen, files do not sprawl, and every exported name says
// what it is.
func TestShape(t *testing.T) {
	for _, s := range sources(t) {
		if len(s.lines) > fileLinesMax {
			t.Errorf("%s has %d lines", s.path, len(s.lines))
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.set.Position(fn.End()).Line - s.set.Position(fn.Pos()).Line + 1; n > functionLinesMax {
				t.Errorf("%s: %s has %d lines", s.path, fn.Name.Name, n)
			}
			if fn.Name.IsExported() && fn.Doc == nil && (fn.Recv == nil || receiverExported(fn)) {
				t.Errorf("%s: %s has no doc comment", s.path, fn.Name.Name)
			}
		}
	}
}

func receiverExported(fn *ast.FuncDecl) bool {
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch x := t.(type) {
	case *ast.Ident:
		return x.IsExported()
	case *ast.IndexExpr:
		id, ok := x.X.(*ast.Ident)
		return ok && id.IsExported()
	}
	return false
}

// Tests never sleep and never skip.
func TestNoSleepsNoSkips(t *testing.T) {
	re := regexp.MustCompile(`time\.Sleep\(|\bt\.Skip`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || path == "tidy_test.go" {
			return err
		}
		raw, err := os.ReadFile(path)
		for i, line := range strings.Split(string(raw), "\n") {
			if re.MatchString(line) {
				t.Errorf("%s:%d sleeps or skips", path, i+1)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Documents name files that exist.
func TestLinks(t *testing.T) {
	re := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range re.FindAllStringSubmatch(string(raw), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(f), m[1])); err != nil {
					t.Errorf("%s links to %s, which does not exist", f, m[1])
				}
			}
		}
	}
}
