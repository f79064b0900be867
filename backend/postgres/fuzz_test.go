package postgres_test

import (
	"database/sql"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
)

// A stored exit reads as the mode that prints so, any other text as expired.
func FuzzExitMode(f *testing.F) {
	for _, text := range []string{"", "none", "finished", "abandoned", "retired", "expired", "Finished", "finished ", "ExitMode(7)", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := backend.ExitExpired
		for _, m := range []backend.ExitMode{backend.ExitNone, backend.ExitFinished, backend.ExitAbandoned, backend.ExitRetired} {
			if text == m.String() {
				want = m
			}
		}
		if got := postgres.ReadExitMode(text); got != want {
			t.Fatalf("%q reads as %v", text, got)
		}
	})
}

// A schema's name is the only text of the user's that becomes part of a
// statement. It stands there as one quoted identifier, or New refuses it.
func FuzzSchema(f *testing.F) {
	for _, name := range []string{
		"", "public", `Odd "schema's`, `"; DROP TABLE worklease_leases; --`, `'`, `''`, `"`, `""`, `\`, `\'`, "a\nb", "$1", "a\x00", "a\xff",
		"worklease_leases", "'worklease_fencing_seq'", strings.Repeat("ä", 32), strings.Repeat("s", 64),
	} {
		f.Add(name)
	}
	plain := statements(f, "")
	for i, text := range plain {
		plain[i] = unquoted(f, text, "")
	}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 63 || !utf8.ValidString(name) || strings.Contains(name, "\x00") {
			if _, err := postgres.New(new(sql.DB), postgres.WithSchema(name)); err == nil {
				t.Fatalf("New takes the schema %q", name)
			}
			return
		}
		for i, text := range statements(t, name) {
			if text = unquoted(t, text, name); text != plain[i] {
				t.Fatalf("the schema %q makes a statement other than\n%s\nnamely\n%s", name, plain[i], text)
			}
		}
	})
}

func statements(tb testing.TB, schema string) (texts []string) {
	tb.Helper()
	for _, l := range []*postgres.Listener{nil, postgres.NewListener(nil)} {
		b, err := postgres.New(new(sql.DB), postgres.WithSchema(schema), postgres.WithNotifications(l))
		if err != nil {
			tb.Fatal(err)
		}
		for _, name := range postgres.Statements {
			texts = append(texts, b.Text(name))
		}
		if l != nil {
			texts = append(texts, l.Words()...)
		}
	}
	return texts
}

// unquoted reads text as PostgreSQL does and takes the qualification away: from
// identifiers in double quotes, and from those inside the literal of an escape
// string. Comments and what no quotes enclose stay as they are.
func unquoted(tb testing.TB, text, schema string) string {
	tb.Helper()
	var out strings.Builder
	for text != "" {
		switch {
		case strings.HasPrefix(text, "--"):
			line, rest, _ := strings.Cut(text, "\n")
			out.WriteString(line + "\n")
			text = rest
		case text[0] == '"':
			name, rest := quoted(tb, text, false)
			if name != schema || !strings.HasPrefix(rest, ".") {
				tb.Fatalf("the identifier %q in place of the schema %q", name, schema)
			}
			text = rest[1:]
		case strings.HasPrefix(text, "E'"):
			literal, rest := quoted(tb, text[1:], true)
			out.WriteString("'" + unquoted(tb, literal, schema) + "'")
			text = rest
		case text[0] == '\'':
			literal, rest := quoted(tb, text, false)
			out.WriteString("'" + literal + "'")
			text = rest
		default:
			out.WriteByte(text[0])
			text = text[1:]
		}
	}
	return out.String()
}

// quoted reads a token between quotes and what follows it. Inside, a quote is
// doubled, and a backslash escapes what comes next if escapes says so.
func quoted(tb testing.TB, text string, escapes bool) (inside, rest string) {
	tb.Helper()
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\', text[i] == quote && strings.HasPrefix(text[i+1:], string(quote)):
			i++
			inside += text[i : i+1]
		case text[i] == quote:
			return inside, text[i+1:]
		default:
			inside += text[i : i+1]
		}
	}
	tb.Fatalf("%q does not end", text)
	return "", ""
}
