package pg_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Every statement of the module is accepted by PostgreSQL on the migrated
// schema of its kind of home: no statement waits for production to be misspelt.
func TestStatementsPrepare(t *testing.T) {
	url := pgtest.Database(t)
	conns := map[string]*pgx.Conn{}
	for _, schema := range []string{"directory", "room", "shard"} {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		cfg.RuntimeParams["search_path"] = schema
		c, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		conns[schema] = c
	}
	n := 0
	for name, sql := range statements(t) {
		n++
		var errs []string
		ok := false
		for schema, c := range conns {
			if _, err := c.Prepare(t.Context(), name, sql); err != nil {
				errs = append(errs, fmt.Sprintf("%s: %v", schema, err))
			} else {
				ok = true
			}
		}
		if !ok {
			t.Errorf("%s cannot be prepared anywhere: %s", name, strings.Join(errs, "; "))
		}
	}
	if n < 50 {
		t.Errorf("only %d statements were found", n)
	}
}

// statements returns the string constants named sql... of every package that is
// not a benchmark's, by package and name. Templates are left out: the
// tests of their package run them.
func statements(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "bench") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if strings.HasPrefix(name.Name, "sql") && i < len(v.Values) {
						if sql, ok := text(f, v.Values[i]); ok && !strings.Contains(sql, "%s") && !strings.Contains(sql, "{table}") {
							out[filepath.Base(filepath.Dir(path))+"."+name.Name] = sql
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// text evaluates a constant made of literals, other constants of the file, and +.
func text(f *ast.File, e ast.Expr) (string, bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok1 := text(f, x.X)
		b, ok2 := text(f, x.Y)
		return a + b, ok1 && ok2
	case *ast.Ident:
		if x.Obj == nil {
			return "", false
		}
		if v, ok := x.Obj.Decl.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			return text(f, v.Values[0])
		}
	}
	return "", false
}
