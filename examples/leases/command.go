package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aetomala/worklease/backend"
)

const usage = `usage: leases -dsn DSN [flag ...] [verb]

Verbs:
  list                         who holds what; also where there is no verb
  force-release WORKID TOKEN   take a lease from a holder that is dead
  forget WORKID TOKEN          delete a lease, with its state
  sweep                        delete what was retired
  check                        say what is wrong with the database

Flags, before the verb:
`

// command is what the command line says.
type command struct {
	dsn, schema string
	pooler      bool

	list  backend.ListOptions
	json  bool
	watch time.Duration
	sweep backend.SweepOptions

	verb string
	args []string
}

// uses are the flags that one verb alone has a use for.
var uses = map[string][]string{
	"list":  {"live", "lapsed", "holder", "exit", "prefix", "json", "state", "watch"},
	"sweep": {"retention", "include-expired"},
}

func parse(args []string) (cmd command, err error) {
	flags := flag.NewFlagSet("leases", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&cmd.dsn, "dsn", "", "PostgreSQL `database` that has the leases")
	flags.StringVar(&cmd.schema, "schema", "", "`schema` of the table; empty: by the search_path")
	flags.BoolVar(&cmd.pooler, "pooler", false, "connect through a pooler in transaction mode")
	flags.BoolVar(&cmd.list.Live, "live", false, "list leases that are held")
	flags.BoolVar(&cmd.list.Lapsed, "lapsed", false, "list leases that are not held: run out or released")
	flags.StringVar(&cmd.list.HolderID, "holder", "", "list the leases of this `holder`")
	flags.Func("exit", "list leases left in this `mode`: finished, abandoned, retired or expired", func(name string) (err error) {
		cmd.list.Exit, err = exitMode(name)
		return err
	})
	flags.StringVar(&cmd.list.WorkIDPrefix, "prefix", "", "list leases whose work ID begins with these `bytes`")
	flags.BoolVar(&cmd.json, "json", false, "list as JSON, an object a line")
	flags.BoolVar(&cmd.list.State, "state", false, "list the states as well, in base64; only with -json")
	flags.DurationVar(&cmd.watch, "watch", 0, "list again at this `interval`, until interrupted; 0: list once")
	flags.DurationVar(&cmd.sweep.Retention, "retention", 0, "sweep what was last updated longer ago than this `age`")
	flags.BoolVar(&cmd.sweep.IncludeExpired, "include-expired", false, "sweep what lapsed without an exit as well")
	if err := flags.Parse(args); err != nil {
		return cmd, err
	}

	cmd.verb = "list"
	if flags.NArg() > 0 {
		cmd.verb, cmd.args = flags.Arg(0), flags.Args()[1:]
	}
	want := map[string]int{"list": 0, "force-release": 2, "forget": 2, "sweep": 0, "check": 0}
	if n, known := want[cmd.verb]; !known || n != len(cmd.args) {
		return cmd, fmt.Errorf("%q: want list, forget WORKID TOKEN, force-release WORKID TOKEN, sweep or check, after all flags", flags.Args())
	}
	return cmd, cmd.check(flags)
}

// check refuses flags that would have no effect: who gave them meant something else.
func (c command) check(flags *flag.FlagSet) error {
	var useless []string
	flags.Visit(func(f *flag.Flag) {
		for verb, names := range uses {
			if verb != c.verb && slices.Contains(names, f.Name) {
				useless = append(useless, "-"+f.Name)
			}
		}
	})
	switch {
	case len(useless) > 0:
		return fmt.Errorf("%s has no use for %s", c.verb, strings.Join(useless, ", "))
	case c.list.State && !c.json:
		return errors.New("-state is shown only with -json")
	case c.watch < 0:
		return fmt.Errorf("-watch %v is below zero", c.watch)
	}
	return nil
}

// exitMode is the way to leave a lease that is called name.
func exitMode(name string) (backend.ExitMode, error) {
	for m := backend.ExitFinished; m <= backend.ExitExpired; m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, errors.New("want finished, abandoned, retired or expired")
}
