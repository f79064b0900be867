package peers

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/aetomala/worklease/internal/bench/measure"
)

// Redislock obtains a lock and keeps the progress in a key. Nothing fences the
// writes: who has lost the lock without noticing still makes them.
func Redislock(address string, steps int) measure.Work {
	open := func(_ context.Context, clients int) (measure.Session, error) {
		client := redis.NewClient(&redis.Options{Network: "tcp", Addr: address, PoolSize: clients})
		locker := redislock.New(client)
		do := func(ctx context.Context, n int) error {
			return runRedislock(ctx, client, locker, "work:"+strconv.Itoa(n), steps)
		}
		return measure.Session{Do: do, Close: client.Close}, nil
	}
	return measure.Loop{Ready: func(context.Context) error { return nil }, Open: open}
}

func runRedislock(ctx context.Context, client *redis.Client, locker *redislock.Client, work string, steps int) error {
	lock, err := locker.Obtain(ctx, work+":lock", time.Minute, nil)
	if err != nil {
		return err
	}
	key := work + ":progress"
	if err := client.Get(ctx, key).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for range steps {
		if err := client.Set(ctx, key, progress, 0).Err(); err != nil {
			return err
		}
	}
	return lock.Release(ctx)
}
