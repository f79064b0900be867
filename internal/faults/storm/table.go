//go:build linux

package storm

import (
	"context"
	"database/sql"

	"github.com/aetomala/worklease/internal/faults/history"
)

// dump writes the table down as a history of its own.
func dump(ctx context.Context, db *sql.DB, dir string) error {
	log, err := history.Open(dir, "table")
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // Each write was checked.
	rows, err := db.QueryContext(ctx, `SELECT work_id, holder_id, fencing_token,
		coalesce(convert_from(checkpoint, 'UTF8'), ''), coalesce(exit_mode, '') FROM worklease_leases`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e := history.Event{Kind: history.Row, At: history.Now()}
		if err := rows.Scan(&e.ID, &e.Holder, &e.Token, &e.State, &e.Exit); err != nil {
			return err
		}
		log.Write(e)
	}
	return rows.Err()
}
