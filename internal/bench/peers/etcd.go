package peers

import (
	"context"
	"errors"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/aetomala/worklease/internal/bench/measure"
)

// Etcd locks a concurrency.Mutex and keeps the progress in a key, written in a
// transaction that compares the lock's key (Mutex.IsOwner), so that it is fenced.
// Each client has a session of its own, which etcd keeps alive.
func Etcd(url string, steps int) measure.Work {
	open := func(_ context.Context, clients int) (measure.Session, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
		if err != nil {
			return measure.Session{}, err
		}
		sessions := make([]*concurrency.Session, clients)
		for n := range sessions {
			if sessions[n], err = concurrency.NewSession(client); err != nil {
				return measure.Session{}, errors.Join(err, client.Close())
			}
		}
		do := func(ctx context.Context, n int) error {
			return runEtcd(ctx, sessions[n], "work/"+strconv.Itoa(n), steps)
		}
		return measure.Session{Do: do, Close: func() error {
			for _, session := range sessions {
				if err := session.Close(); err != nil {
					return err
				}
			}
			return client.Close()
		}}, nil
	}
	return measure.Loop{Ready: func(context.Context) error { return nil }, Open: open}
}

func runEtcd(ctx context.Context, session *concurrency.Session, work string, steps int) error {
	mutex := concurrency.NewMutex(session, work+"/lock")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	key := work + "/progress"
	if _, err := session.Client().Get(ctx, key); err != nil {
		return err
	}
	for range steps {
		response, err := session.Client().Txn(ctx).If(mutex.IsOwner()).Then(clientv3.OpPut(key, progress)).Commit()
		if err != nil {
			return err
		}
		if !response.Succeeded {
			return errors.New("the lock is lost")
		}
	}
	return mutex.Unlock(ctx)
}
