package postgres

import (
	"context"
	"errors"
	"fmt"
)

// WithNotifications wakes those who wait for a lease when it is freed, in place of
// their next poll. Without it they poll, and with it too, beside it.
//
// All processes on a table should have it: one that frees a lease tells the others,
// and its own; l hears what they tell. What frees a lease before its time tells
// only where somebody waits for that very lease, or for so many that they cannot
// be told apart. Those cost a NOTIFY, which PostgreSQL commits one after the other
// on the whole server.
//
// l hears for all Backends that share it, which must be of one database and schema. A
// nil l is the same as no option.
func WithNotifications(l *Listener) Option {
	return func(o *options) { o.listener = l }
}

// Subscribe implements [backend.Notifier]. It tells nobody without
// [WithNotifications].
func (b *Backend) Subscribe(workID string) (free <-chan int, stop func()) {
	if b.listener == nil {
		return nil, func() {}
	}
	return b.listener.board.Subscribe(workID)
}

// attach makes l hear for a Backend on schema.
func (l *Listener) attach(schema string, t texts) error {
	v := vocabulary{schema: schema}
	for name, text := range map[string]*string{"listen": &v.listen, "mark": &v.mark, "unmark": &v.unmark} {
		var err error
		if *text, err = t.of(name); err != nil {
			return err
		}
	}
	v.listen = "DO " + literal(v.listen)
	return l.learn(v)
}

// prober has the server tell all listeners nothing, from another connection than
// theirs.
type prober func(ctx context.Context) error

func (b *Backend) probe(ctx context.Context) error {
	_, err := b.row(ctx, probe, nil)
	return err
}

// vocabulary is what a Listener has to say, and where.
type vocabulary struct {
	schema               string
	listen, mark, unmark string
}

func (l *Listener) learn(v vocabulary) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.words == nil {
		l.words = &v
	}
	if l.words.schema != v.schema {
		return fmt.Errorf("the listener hears for the schema %q, not for %q", l.words.schema, v.schema)
	}
	return nil
}

// errDeaf says that a connection accepted LISTEN and hears nothing.
var errDeaf = errors.New("LISTEN was accepted and nothing is heard (is there a pooler in transaction mode? then let the listener connect past it)")
