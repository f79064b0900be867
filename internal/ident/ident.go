// Package ident says which names every backend can store.
package ident

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the longest name. It leaves room in a PostgreSQL index entry of
// 2,704 bytes (chapter "B-Tree Indexes"), where compression cannot be relied on.
const MaxBytes = 1024

// Check returns an error that names field and value unless every backend can
// store id: not empty, valid UTF-8 without NUL, at most MaxBytes long.
func Check(field, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty", field)
	case len(id) > MaxBytes:
		return fmt.Errorf("%s %.32q… has %d bytes, more than %d", field, id, len(id), MaxBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("%s %q is not valid UTF-8", field, id)
	case strings.IndexByte(id, 0) >= 0:
		return fmt.Errorf("%s %q holds a NUL byte", field, id)
	}
	return nil
}
