// Package pqlisten connects a [postgres.Listener] with github.com/lib/pq.
//
//	listener, err := pqlisten.New(dsn)
//	if err != nil {
//		return err
//	}
//	defer listener.Close()
//	b, err := postgres.New(db, postgres.WithNotifications(listener))
//
// # Guarantees
//
// What [postgres.Listener] promises. The driver of db may be another.
//
// # Not guaranteed
//
// The dsn must lead to the server itself, or to a pooler in session mode: one in
// transaction mode accepts LISTEN and never delivers. Waiters then poll.
package pqlisten

import (
	"context"
	"fmt"

	"github.com/lib/pq"

	"github.com/aetomala/worklease/backend/postgres"
)

// New returns a Listener that connects to dsn, in any form that lib/pq takes. It does
// no I/O. A dsn that lib/pq cannot read is an error.
func New(dsn string) (*postgres.Listener, error) {
	if _, err := pq.NewConnector(dsn); err != nil {
		return nil, fmt.Errorf("pqlisten: New: dsn: %w", err)
	}
	return postgres.NewListener(func(context.Context) (postgres.ListenerConn, error) {
		// Without the context, which lib/pq does not take here: the Listener closes
		// what comes too late.
		notifications := make(chan *pq.Notification, 64)
		c, err := pq.NewListenerConn(dsn, notifications)
		if err != nil {
			return nil, err
		}
		return &conn{conn: c, notifications: notifications}, nil
	}), nil
}

// conn is a [postgres.ListenerConn].
type conn struct {
	conn          *pq.ListenerConn
	notifications <-chan *pq.Notification // closed with the connection
	early         []string                // payloads that came during an Exec
}

// Exec takes what is told meanwhile: lib/pq reads the answer only behind it.
func (c *conn) Exec(ctx context.Context, statement string) error {
	done := make(chan error, 1)
	go func() {
		_, err := c.conn.ExecSimpleQuery(statement)
		done <- err
	}()
	notifications := c.notifications
	for {
		select {
		case err := <-done:
			return err
		case n, open := <-notifications:
			if open {
				c.early = append(c.early, n.Extra)
			} else {
				notifications = nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *conn) Receive(ctx context.Context) (string, error) {
	if len(c.early) > 0 {
		payload := c.early[0]
		c.early = c.early[1:]
		return payload, nil
	}
	select {
	case n, open := <-c.notifications:
		if !open {
			return "", fmt.Errorf("the connection ended: %w", c.conn.Err())
		}
		return n.Extra, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (c *conn) Close() error {
	err := c.conn.Close()
	for range c.notifications { // lib/pq ends once it is rid of them
	}
	return err
}
