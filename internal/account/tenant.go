package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"

	"usher"
	"usher/internal/pg"
)

// Tenant numbers fill the upper half of the 24 bits in which shard ids carry an
// event or a tenant, so that a number says by itself which of the two it is.
const (
	TenantNumberMin = 1 << 23
	TenantNumberMax = 1<<24 - 1
)

// Tenant is a company whose vouchers usher redeems.
type Tenant struct {
	ID        usher.TenantID
	Number    int32
	Name      string
	CreatedAt time.Time
}

const sqlAddTenant = `
INSERT INTO tenant (tenant_id, tenant_number, name, created_at)
SELECT $1, coalesce(max(tenant_number), $3 - 1) + 1, $2, clock_timestamp() FROM tenant
RETURNING tenant_number, created_at`

// CreateTenant makes a tenant with the next number. It fails with
// CodeInvalidRequest, CodeStateConflict when the name is taken, and
// CodeUnavailable.
func (a *Accounts) CreateTenant(ctx context.Context, name string) (Tenant, error) {
	t := Tenant{ID: usher.NewTenantID(), Name: norm.NFC.String(strings.TrimSpace(name))}
	if err := usher.CheckText("the tenant's name", t.Name, nameBytesMax); err != nil {
		return Tenant{}, err
	}
	err := pg.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		if err := lockSubject(ctx, tx, "tenant numbers"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sqlAddTenant, [16]byte(t.ID), t.Name, TenantNumberMin).Scan(&t.Number, &t.CreatedAt)
	})
	if pg.IsUnique(err, "tenant_name") {
		return Tenant{}, usher.Errorf(usher.CodeStateConflict, "a tenant of this name exists")
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("create tenant: %w", err)
	}
	return t, nil
}

const sqlTenants = `SELECT tenant_id, tenant_number, name, created_at FROM tenant ORDER BY tenant_number`

// Tenants lists every tenant by number. It fails with CodeUnavailable.
func (a *Accounts) Tenants(ctx context.Context) ([]Tenant, error) {
	rows, err := a.pool.Query(ctx, sqlTenants)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", pg.Unavailable(err))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Tenant, error) {
		var t Tenant
		err := row.Scan((*[16]byte)(&t.ID), &t.Number, &t.Name, &t.CreatedAt)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", pg.Unavailable(err))
	}
	return out, nil
}
