// Package pgxlisten connects a [postgres.Listener] with github.com/jackc/pgx/v5. It is
// a module of its own, so that worklease does not require pgx.
//
//	listener, err := pgxlisten.New(dsn)
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
package pgxlisten

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aetomala/worklease/backend/postgres"
)

// New returns a Listener that connects to dsn, in any form that pgx takes. It does no
// I/O. A dsn that pgx cannot read is an error.
func New(dsn string) (*postgres.Listener, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("pgxlisten: New: dsn: %w", err)
	}
	return postgres.NewListener(func(ctx context.Context) (postgres.ListenerConn, error) {
		c, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		return conn{c}, nil
	}), nil
}

// conn is a [postgres.ListenerConn].
type conn struct{ conn *pgx.Conn }

func (c conn) Exec(ctx context.Context, statement string) error {
	// Without parameters pgx sends it as a simple query.
	_, err := c.conn.PgConn().Exec(ctx, statement).ReadAll()
	return err
}

func (c conn) Receive(ctx context.Context) (string, error) {
	n, err := c.conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return n.Payload, nil
}

// farewell bounds how long a server is told that the session ends.
const farewell = time.Second

func (c conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return c.conn.Close(ctx)
}
