package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
)

// store is a backend with what operators need.
type store interface {
	backend.Backend
	backend.Lister
	backend.ForceReleaser
}

// tool does what a command says.
type tool struct {
	store store
	out   io.Writer
	now   func() time.Time
}

func (t tool) do(ctx context.Context, cmd command) error {
	verb, args := "list", []string(nil)
	if len(cmd.args) > 0 {
		verb, args = cmd.args[0], cmd.args[1:]
	}
	switch {
	case verb == "list" && len(args) == 0:
		return t.watch(ctx, cmd)
	case verb == "forget" && len(args) == 2:
		return t.forget(ctx, args[0], args[1])
	case verb == "force-release" && len(args) == 2:
		return t.forceRelease(ctx, args[0], args[1])
	case verb == "sweep" && len(args) == 0:
		return t.sweep(ctx, cmd.sweep)
	case verb == "check" && len(args) == 0:
		return t.check(ctx)
	}
	return fmt.Errorf("%q: want list, forget WORKID TOKEN, force-release WORKID TOKEN, sweep or check, after all flags", cmd.args)
}

// watch lists once, or again and again until ctx ends.
func (t tool) watch(ctx context.Context, cmd command) error {
	for {
		err := t.list(ctx, cmd)
		interrupted := cmd.watch > 0 && ctx.Err() != nil
		if cmd.watch <= 0 || err != nil && !interrupted {
			return err
		}
		timer := time.NewTimer(cmd.watch)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			fmt.Fprintln(t.out)
		}
	}
}

func (t tool) list(ctx context.Context, cmd command) error {
	p := newTable(t.out, t.now())
	if cmd.json {
		p = newLines(t.out)
	}
	for info, err := range t.store.List(ctx, cmd.list) {
		if err == nil {
			err = p.print(info)
		}
		if err != nil {
			return errors.Join(err, p.close())
		}
	}
	return p.close()
}

// forget deletes a lease on behalf of its holder, who is fenced then. The token says
// which lease is meant, so that one which has moved on meanwhile is not touched.
func (t tool) forget(ctx context.Context, workID, token string) error {
	n, err := parseToken(token)
	if err != nil {
		return err
	}
	for info, err := range t.store.List(ctx, backend.ListOptions{WorkIDPrefix: workID}) {
		if err != nil {
			return err
		}
		if info.WorkID != workID {
			continue
		}
		record := backend.LeaseRecord{WorkID: workID, HolderID: info.HolderID, FencingToken: n}
		if err := t.store.Forget(ctx, record); err != nil {
			return fmt.Errorf("forget %q under token %d: %w", workID, n, err)
		}
		fmt.Fprintf(t.out, "%s is forgotten, its state too; the next holder begins anew\n", text(workID))
		return nil
	}
	return fmt.Errorf("there is no lease on %q", workID)
}

func (t tool) forceRelease(ctx context.Context, workID, token string) error {
	n, err := parseToken(token)
	if err != nil {
		return err
	}
	if err := t.store.ForceRelease(ctx, workID, n); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s is free, and the holder under token %d is fenced; the next one reads expired\n", text(workID), n)
	return nil
}

func parseToken(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("token %q is no number: the list shows it", text)
	}
	return n, nil
}

func (t tool) sweep(ctx context.Context, opts backend.SweepOptions) error {
	vacuum, err := worklease.NewVacuum(t.store, worklease.VacuumConfig{})
	if err != nil {
		return err
	}
	n, err := vacuum.Sweep(ctx, opts)
	if err == nil || n > 0 {
		fmt.Fprintf(t.out, "%d deleted\n", n)
	}
	return err
}

// check asks a store that can say whether it is as it must be.
func (t tool) check(ctx context.Context) error {
	c, ok := t.store.(interface{ Check(context.Context) error })
	if !ok {
		return errors.New("a store in memory has nothing to check")
	}
	if err := c.Check(ctx); err != nil {
		return err
	}
	fmt.Fprintln(t.out, "all is as it must be")
	return nil
}
