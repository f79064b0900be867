//go:build linux

// Package plan says what is measured: which work, by whom, with how many clients.
package plan

import (
	"context"
	"errors"
	"time"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/ours"
	"github.com/aetomala/worklease/internal/bench/peers"
	"github.com/aetomala/worklease/internal/bench/server"
)

// The tables of the run that compares.
const (
	Renew          = "Renew"
	Checkpoint     = "Checkpoint of 1 KB"
	AcquireRelease = "Acquire and Release"
	RefusedOne     = "a failed Acquire, one row"
	RefusedMany    = "a failed Acquire, 10,000 rows"
	Run0           = "a run without checkpoints"
	Run10          = "a run with 10 checkpoints"
)

// Contenders beside those that [Name] names.
const (
	Limit         = "pgbench"
	River         = "River"
	RiverInMemory = "River, steps in memory"
	DBOS          = "DBOS"
	Etcd          = "etcd"
	Redislock     = "redislock"
)

// Name is that of worklease, or of what stands in its place, at a level and
// through a driver.
func Name(driver ours.Driver, level ours.Level) string { return level.Name + ", " + driver.Name }

// Runner is the name of a worker.Runner through a driver.
func Runner(driver ours.Driver) string { return "Runner.Run, " + driver.Name }

// Clients are how many work at once.
var Clients = []int{1, 8, 32}

// Drivers are those of database/sql.
var Drivers = []ours.Driver{ours.LibPQ, ours.Pgx}

// Servers are what the work runs on.
type Servers struct {
	Postgres *server.Postgres
	Redis    *server.Redis
	Etcd     *server.Etcd

	Store             *ours.Store
	riverDSN, dbosDSN string
}

// Start starts all of them. Root is the repository's.
func Start(ctx context.Context, root string) (s *Servers, err error) {
	s = &Servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Postgres, err = server.StartPostgres(ctx); err != nil {
		return s, err
	}
	if s.Redis, err = server.StartRedis(ctx); err != nil {
		return s, err
	}
	if s.Etcd, err = server.StartEtcd(ctx); err != nil {
		return s, err
	}
	dsn, err := s.Postgres.Create(ctx, "worklease")
	if err != nil {
		return s, err
	}
	if s.Store, err = ours.NewStore(ctx, dsn, root); err != nil {
		return s, err
	}
	if s.riverDSN, err = s.Postgres.Create(ctx, "river"); err != nil {
		return s, err
	}
	s.dbosDSN, err = s.Postgres.Create(ctx, "dbos")
	return s, err
}

// Close ends all of them.
func (s *Servers) Close() error {
	var errs []error
	if s.Postgres != nil {
		errs = append(errs, s.Postgres.Close())
	}
	if s.Redis != nil {
		errs = append(errs, s.Redis.Close())
	}
	if s.Etcd != nil {
		errs = append(errs, s.Etcd.Close())
	}
	return errors.Join(errs...)
}

// Tables are those of the run that compares, each turn of a length.
func (s *Servers) Tables(length time.Duration) []measure.Table {
	tables := []measure.Table{
		{ID: Renew, Contenders: s.operation(ours.Renew, ours.AsStatement, ours.AsBackend, ours.AsUnbounded, ours.AsLease)},
		{ID: Checkpoint, Contenders: s.operation(ours.Checkpoint, ours.AsStatement, ours.AsLease)},
		{ID: AcquireRelease, Contenders: s.operation(ours.AcquireRelease, ours.AsStatement, ours.AsLease)},
		{ID: RefusedOne, Contenders: s.operation(ours.Refused(1), ours.AsUpsert, ours.AsLease)},
		{ID: RefusedMany, Contenders: s.operation(ours.Refused(10_000), ours.AsUpsert, ours.AsLease)},
		{ID: Run0, Contenders: s.runs(0)},
		{ID: Run10, Contenders: s.runs(10)},
	}
	for i := range tables {
		tables[i].Clients, tables[i].Length = Clients, length
	}
	return tables
}

// operation lets the limit and the levels compete.
func (s *Servers) operation(o ours.Operation, levels ...ours.Level) []measure.Contender {
	contenders := []measure.Contender{{Name: Limit, Work: o.Limit(s.Store, s.Postgres.Pgbench), On: s.Postgres}}
	for _, driver := range Drivers {
		for _, level := range levels {
			contenders = append(contenders, measure.Contender{Name: Name(driver, level), Work: o.At(s.Store, level, driver), On: s.Postgres})
		}
	}
	return contenders
}

// runs lets a whole run compete with the bare statements and with the peers.
func (s *Servers) runs(checkpoints int) []measure.Contender {
	var contenders []measure.Contender
	for _, driver := range Drivers {
		contenders = append(contenders,
			measure.Contender{Name: Name(driver, ours.AsStatement), Work: ours.Run(checkpoints).At(s.Store, ours.AsStatement, driver), On: s.Postgres},
			measure.Contender{Name: Runner(driver), Work: ours.Runner(s.Store, driver, checkpoints), On: s.Postgres})
	}
	if checkpoints > 0 {
		contenders = append(contenders, measure.Contender{Name: RiverInMemory, Work: &peers.River{DSN: s.riverDSN, Steps: checkpoints}, On: s.Postgres})
	}
	return append(contenders,
		measure.Contender{Name: River, Work: &peers.River{DSN: s.riverDSN, Steps: checkpoints, Durable: true}, On: s.Postgres},
		measure.Contender{Name: DBOS, Work: peers.DBOS(s.dbosDSN, checkpoints), On: s.Postgres},
		measure.Contender{Name: Etcd, Work: peers.Etcd(s.Etcd.URL, checkpoints), On: s.Etcd},
		measure.Contender{Name: Redislock, Work: peers.Redislock(s.Redis.Address, checkpoints), On: s.Redis})
}

// GrowthClients work at once on tables of different sizes.
const GrowthClients = 8

// Rows are the sizes of the tables, as contenders of each other.
var Rows = []struct {
	Name  string
	count int
}{{"100 rows", 100}, {"1,000 rows", 1_000}, {"10,000 rows", 10_000}, {"100,000 rows", 100_000}}

// Growth are the tables of the run that looks at growth.
func (s *Servers) Growth(length time.Duration) []measure.Table {
	var tables []measure.Table
	for _, grown := range ours.GrownOperations {
		t := measure.Table{ID: GrowthOf(grown), Clients: []int{GrowthClients}, Length: length}
		for _, rows := range Rows {
			t.Contenders = append(t.Contenders, measure.Contender{Name: rows.Name, Work: grown.On(s.Store, rows.count), On: s.Postgres})
		}
		tables = append(tables, t)
	}
	return tables
}

// GrowthOf names the table of an operation's growth.
func GrowthOf(g ours.Grown) string { return "growth: " + g.Name }

// HeldLeases are how many leases one process holds.
var HeldLeases = []int{1_000, 3_000, 10_000}
