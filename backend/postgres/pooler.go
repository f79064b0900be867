package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
)

// unprepared returns the arguments that keep the driver from preparing a
// statement by itself: none for lib/pq, which does not; for pgx, which does unless
// it is told otherwise, the mode "describe exec". Its type is found by reflection
// on a connection, since this package imports no driver.
func (b *Backend) unprepared(ctx context.Context) ([]any, error) {
	if mode := b.mode.Load(); mode != nil {
		return slices.Clone(*mode), nil
	}
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var mode []any
	err = conn.Raw(func(driverConn any) error {
		mode = execMode(driverConn)
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.mode.Store(&mode)
	return slices.Clone(mode), nil
}

// execMode finds pgx's mode "describe exec" by way of the methods
// (*stdlib.Conn).Conn and (*pgx.Conn).Config.
func execMode(driverConn any) []any {
	v := reflect.ValueOf(driverConn)
	for _, name := range []string{"Conn", "Config"} {
		method := v.MethodByName(name)
		if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
			return nil
		}
		v = method.Call(nil)[0]
	}
	if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
		return nil
	}
	v = v.FieldByName("DefaultQueryExecMode")
	if !v.IsValid() || !v.CanInt() {
		return nil
	}
	mode := reflect.New(v.Type()).Elem()
	for n := range int64(16) {
		mode.SetInt(n)
		if fmt.Sprint(mode.Interface()) == "describe exec" {
			return []any{mode.Interface()}
		}
	}
	return nil
}

// transact runs a statement unprepared in a transaction of its own, so that a
// transaction-mode pooler keeps all its messages on one server connection.
func (b *Backend) transact(ctx context.Context, name string, args []any, read func(*sql.Rows) error) error {
	mode, err := b.unprepared(ctx)
	if err != nil {
		return err
	}
	args = append(mode, args...)
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after the commit
	rows, err := tx.QueryContext(ctx, b.statements[name].text, args...)
	if err != nil {
		return err
	}
	if err := read(rows); err != nil {
		return err
	}
	return tx.Commit()
}
