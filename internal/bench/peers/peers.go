// Package peers does the work of a whole run with what a user would pick in the
// place of worklease, each as its own documents say: take the work on, read what
// is known of it, store 1 KB of progress so many times, finish.
package peers

import (
	"bytes"
	"embed"
)

// progress is what is stored at each step: 1 KB, of letters, since two of the
// peers keep it as JSON.
var progress = string(bytes.Repeat([]byte("abcdefghijklmnop"), 64))

// Sources are the peers' files, for the report.
//
//go:embed river.go dbos.go etcd.go redislock.go
var Sources embed.FS
