package serverfaults

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/recorder"
	"github.com/aetomala/worklease/worker"
)

const (
	password = "Ugh8-password-eiPh1"
	secret   = "oaNg4-state-Aih6b"
)

func (s *subject) secretSpecs() {
	DescribeTable("stay out of all errors, events and tokens where", func(ctx SpecContext, damage func(ctx context.Context, s *subject) string) {
		const ttl = time.Second
		b := on(s.database())
		token := acquire(ctx, holder(b, "a", ttl), work)

		told := &told{}
		bad := on(s.open(withPassword(damage(ctx, s))))
		l := observed(bad, "a", ttl, told)
		told.tell(token)
		renewCtx, stop := l.StartRenewal(ctx, token)
		defer stop()

		state := []byte(secret)
		_, err := l.Acquire(ctx, "other")
		told.tell(err)
		_, err = l.ReadCheckpoint(ctx, token)
		told.tell(err)
		refused := l.Checkpoint(ctx, token, state)
		Expect(refused).To(HaveOccurred())
		told.tell(refused)
		told.tell(l.Forget(ctx, worklease.Token{}))
		renewErr := l.Renew(ctx, token)
		told.tell(renewErr)
		if renewErr != nil {
			<-renewCtx.Done()
			told.tell(context.Cause(renewCtx))
		}
		stop()

		runner, err := worker.NewRunner(worker.RunnerConfig{
			Lease:          l,
			CleanupTimeout: ttl,
			WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				return state, nil
			},
		})
		Expect(err).NotTo(HaveOccurred())
		told.tell(runner.Run(ctx, "another"))
		told.tell(l.Release(ctx, token, worklease.ExitFinished))
		told.tell(l.Forget(ctx, token))
		v, err := worklease.NewVacuum(bad, worklease.VacuumConfig{Observer: told})
		Expect(err).NotTo(HaveOccurred())
		_, err = v.Sweep(ctx, worklease.SweepOptions{Retention: time.Hour})
		told.tell(err)

		told.expectDiscreet()
	},
		Entry("the password is wrong", limit, func(ctx context.Context, s *subject) string {
			db := s.open(s.dsn)
			run(ctx, db, `CREATE ROLE secretive LOGIN PASSWORD 'another'`,
				`DO $$ BEGIN
					EXECUTE format('COPY (VALUES (%L), (%L)) TO %L', 'host all secretive all scram-sha-256',
						'host all all all trust', current_setting('hba_file'));
				END $$`,
				`SELECT pg_reload_conf()`)
			return as(s.dsn, "secretive")
		}),
		Entry("nobody listens", limit, func(_ context.Context, s *subject) string {
			return through(s.dsn, "127.0.0.1:1")
		}),
		Entry("there is no such database", limit, func(_ context.Context, s *subject) string {
			return edited(s.dsn, func(u *url.URL) { u.Path += "_not" })
		}),
		Entry("the DSN does not parse", limit, func(_ context.Context, s *subject) string {
			return with(s.dsn, "sslmode", "nonsense")
		}),
		Entry("there is no table", limit, func(ctx context.Context, s *subject) string {
			run(ctx, s.open(s.dsn), `DROP TABLE worklease_leases`)
			return s.dsn
		}),
		Entry("the table takes no state", limit, func(ctx context.Context, s *subject) string {
			run(ctx, s.open(s.dsn), `ALTER TABLE worklease_leases ADD CHECK (checkpoint IS NULL)`)
			return s.dsn
		}),
		Entry("the table takes other states", limit, func(ctx context.Context, s *subject) string {
			run(ctx, s.open(s.dsn), `ALTER TABLE worklease_leases ALTER checkpoint TYPE bigint USING NULL`)
			return s.dsn
		}),
	)

	It("stay out of the error of a state that is too large", limit, func(ctx SpecContext) {
		told := &told{}
		l := observed(on(s.database()), "a", ttl, told)
		token := acquire(ctx, l, work)
		state := make([]byte, 128<<20+1)
		copy(state, secret)
		err := l.Checkpoint(ctx, token, state)
		Expect(err).To(HaveOccurred())
		told.tell(err)
		told.expectDiscreet()
	})
}

// withPassword returns dsn with the password.
func withPassword(dsn string) string {
	GinkgoHelper()
	return edited(dsn, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), password) })
}

// told collects what a program may log.
type told struct {
	recorder.Recorder
	values []any
}

func (t *told) tell(value any) { t.values = append(t.values, value) }

// expectDiscreet holds that no way to print what was told shows a secret.
func (t *told) expectDiscreet() {
	GinkgoHelper()
	for _, entry := range t.Entries() {
		t.tell(entry.Event)
	}
	texts := 0
	for _, value := range t.values {
		for _, text := range append(printed(value), unwrapped(value)...) {
			texts++
			for _, needle := range needles() {
				Expect(text).NotTo(ContainSubstring(needle))
			}
		}
	}
	Expect(texts).To(BeNumerically(">", 0))
}

// printed are the ways in which logs print a value.
func printed(value any) []string {
	texts := []string{fmt.Sprint(value), fmt.Sprintf("%+v", value), fmt.Sprintf("%#v", value)}
	if text, err := json.Marshal(value); err == nil {
		texts = append(texts, string(text))
	}
	return texts
}

// unwrapped are the texts of the errors that value wraps.
func unwrapped(value any) (texts []string) {
	err, ok := value.(error)
	if !ok {
		return nil
	}
	texts = append(texts, err.Error())
	switch wrapper := err.(type) { //nolint:errorlint // It goes through the tree itself.
	case interface{ Unwrap() error }:
		texts = append(texts, unwrapped(wrapper.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			texts = append(texts, unwrapped(inner)...)
		}
	}
	return texts
}

// needles are the secrets as they may be printed. A text may cut them short.
func needles() []string {
	state := []byte(secret[:8])
	list := fmt.Sprint(state)
	source := fmt.Sprintf("%#v", state)
	_, after, _ := strings.Cut(source, "{")
	return []string{
		password,
		url.QueryEscape(password),
		string(state),
		hex.EncodeToString(state),
		strings.ToUpper(hex.EncodeToString(state)),
		strings.Trim(list, "[]"),
		strings.Trim(after, "{}"),
		base64.StdEncoding.EncodeToString(state)[:8],
	}
}

var _ worklease.VacuumObserver = (*told)(nil)
