package main

import (
	"maps"
	"slices"

	"usher/internal/pg"
)

// migrateCmd brings the databases up to date.
type migrateCmd struct {
	databaseFlags `embed:""`
}

// Run migrates every home. Several processes may do it at once.
func (c *migrateCmd) Run(p *process) error {
	cfg, err := c.homes()
	if err != nil {
		return err
	}
	if err := pg.MigrateSchema(p.ctx, cfg.DirectoryURL, pg.SchemaDirectory); err != nil {
		return err
	}
	if err := pg.MigrateSchema(p.ctx, cfg.RoomURL, pg.SchemaRoom); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(cfg.ShardURLs)) {
		if err := pg.MigrateSchema(p.ctx, cfg.ShardURLs[n], pg.SchemaShard); err != nil {
			return err
		}
	}
	p.log.Info("databases are up to date", "shards", len(cfg.ShardURLs))
	return nil
}
