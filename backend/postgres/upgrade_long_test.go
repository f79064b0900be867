//go:build long

package postgres_test

func init() { conforming = append(conforming, "0.5", "0.6") }
