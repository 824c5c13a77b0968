package seatmap_test

import (
	"testing"

	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
