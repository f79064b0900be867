//go:build linux

package storm

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/aetomala/worklease/internal/faults/history"
)

// schema is the ledger's. Nothing in it keeps an entry from being there twice.
const schema = `
	CREATE TABLE ledger (work_id text NOT NULL, entry bigint NOT NULL, token bigint NOT NULL);
	CREATE INDEX ON ledger (work_id, entry)`

// auditor writes down, as a history of its own, how rows and cursors stand.
type auditor struct {
	db  *sql.DB
	log *history.Log
}

func newAuditor(dsn, dir string) (*auditor, error) {
	log, err := history.Open(dir, "audit")
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	db.SetMaxIdleConns(0) // one that is kept is broken after the next crash
	return &auditor{db: db, log: log}, nil
}

func (a *auditor) close() error { return errors.Join(a.db.Close(), a.log.Close()) }

// audit looks once. It is one statement, and so one snapshot.
func (a *auditor) audit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rows, err := a.db.QueryContext(ctx, `
		SELECT work_id, coalesce(convert_from(checkpoint, 'UTF8'), ''), entries.*
		FROM (SELECT work_id FROM worklease_leases WHERE work_id LIKE 'l%' UNION SELECT work_id FROM ledger) AS works
		LEFT JOIN worklease_leases USING (work_id),
		LATERAL (
			SELECT count(*), count(DISTINCT entry), coalesce(max(entry), 0)
			FROM ledger WHERE ledger.work_id = works.work_id
		) AS entries`)
	if err != nil {
		return err
	}
	defer rows.Close()
	at := history.Now()
	for rows.Next() {
		e := history.Event{Kind: history.Audit, At: at}
		if err := rows.Scan(&e.ID, &e.State, &e.Entries, &e.Distinct, &e.Last); err != nil {
			return err
		}
		a.log.Write(e)
	}
	return rows.Err()
}
