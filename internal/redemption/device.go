package redemption

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// Settle says when a claimed code counts as used.
type Settle string

// SettleNow is a human gate: the claim is the admission. SettleLater is a
// turnstile or machine: claim, act, confirm.
const (
	SettleNow   Settle = "now"
	SettleLater Settle = "later"
)

// Device is a gate or machine that redeems codes of one event.
type Device struct {
	ID     usher.DeviceID
	Event  usher.EventID
	Name   string
	Settle Settle
	// Instruction is what a granted claim tells the device to do or to show.
	Instruction string
	CreatedAt   time.Time
	// RevokedAt is set once the device may not act any more.
	RevokedAt *time.Time
}

const (
	deviceNameMax        = 100
	deviceInstructionMax = 500
	deviceSecretBytes    = 32
	credentialPrefix     = "udv_"
	// deviceCacheFor bounds how long a revoked device is still recognised by a
	// process that did not revoke it. Claims and confirmations do not depend on it:
	// their transaction reads that the device is not revoked.
	deviceCacheFor = 2 * time.Second
	// deviceCacheMax bounds memory: more devices than any event has gates.
	deviceCacheMax = 10_000
)

// errDevice is the one answer to every credential that opens nothing.
func errDevice() error {
	return usher.Errorf(usher.CodeUnauthenticated, "the device credential is not valid")
}

const sqlInsertDevice = `
INSERT INTO device (device_id, event_id, name, settle, instruction, secret_hash, created_at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
RETURNING created_at`

// RegisterDevice registers a gate or machine of the event. The credential,
// "udv_<device id>.<secret>", is returned this once: only a hash of the secret
// is stored. It fails with CodeInvalidRequest, and with CodeNotFound for an
// event without a home.
func (r *Redeemer) RegisterDevice(ctx context.Context, event usher.EventID, name string, settle Settle, instruction string) (credential string, d Device, err error) {
	if err := usher.CheckText("the device's name", name, deviceNameMax); err != nil {
		return "", Device{}, err
	}
	if settle != SettleNow && settle != SettleLater {
		return "", Device{}, usher.Errorf(usher.CodeInvalidRequest, "a device settles %q or %q", SettleNow, SettleLater)
	}
	if instruction != "" {
		if err := usher.CheckText("the device's instruction", instruction, deviceInstructionMax); err != nil {
			return "", Device{}, err
		}
	}
	shard, err := r.homes.Shard(ctx, event)
	if err != nil {
		return "", Device{}, err
	}
	var secret [deviceSecretBytes]byte
	// Read never fails: the process ends if the system has no randomness.
	_, _ = rand.Read(secret[:])
	text := base64.RawURLEncoding.EncodeToString(secret[:])
	hash := sha256.Sum256([]byte(text))
	d = Device{ID: usher.NewDeviceID(event), Event: event, Name: name, Settle: settle, Instruction: instruction}
	err = pg.InTx(ctx, shard, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqlInsertDevice, d.ID, event, name, settle, instruction, hash[:]).Scan(&d.CreatedAt)
	})
	if err != nil {
		return "", Device{}, fmt.Errorf("register device of %s: %w", event, err)
	}
	return credentialPrefix + d.ID.String() + "." + text, d, nil
}

const sqlReadDevice = `
SELECT event_id, name, settle, instruction, secret_hash, created_at, revoked_at
FROM device WHERE device_id = $1`

// Device resolves a credential. It fails with CodeUnauthenticated for anything
// that is not the credential of a registered device that may act.
func (r *Redeemer) Device(ctx context.Context, credential string) (Device, error) {
	id, hash, ok := parseCredential(credential)
	if !ok {
		return Device{}, errDevice()
	}
	known, ok := r.devices.get(id)
	if !ok {
		var err error
		if known, err = r.readDevice(ctx, id); err != nil {
			return Device{}, err
		}
		r.devices.put(known)
	}
	if subtle.ConstantTimeCompare(known.hash[:], hash[:]) != 1 {
		return Device{}, errDevice()
	}
	return known.device, nil
}

func parseCredential(credential string) (id usher.DeviceID, hash [sha256.Size]byte, ok bool) {
	rest, ok := strings.CutPrefix(credential, credentialPrefix)
	if !ok {
		return id, hash, false
	}
	text, secret, ok := strings.Cut(rest, ".")
	if !ok || id.UnmarshalText([]byte(text)) != nil || len(secret) != base64.RawURLEncoding.EncodedLen(deviceSecretBytes) {
		return id, hash, false
	}
	return id, sha256.Sum256([]byte(secret)), true
}

// readDevice reads a device that may act; every other one is CodeUnauthenticated.
func (r *Redeemer) readDevice(ctx context.Context, id usher.DeviceID) (knownDevice, error) {
	shard, err := r.homes.Shard(ctx, id.Event())
	if usher.CodeOf(err) == usher.CodeNotFound {
		return knownDevice{}, errDevice()
	}
	if err != nil {
		return knownDevice{}, err
	}
	k := knownDevice{device: Device{ID: id}}
	d := &k.device
	var hash []byte
	err = shard.QueryRow(ctx, sqlReadDevice, id).
		Scan(&d.Event, &d.Name, &d.Settle, &d.Instruction, &hash, &d.CreatedAt, &d.RevokedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return knownDevice{}, errDevice()
	}
	if err != nil {
		return knownDevice{}, fmt.Errorf("read device %s: %w", id, pg.Unavailable(err))
	}
	if d.RevokedAt != nil || copy(k.hash[:], hash) != len(k.hash) {
		return knownDevice{}, errDevice()
	}
	return k, nil
}

const sqlListDevices = `
SELECT device_id, event_id, name, settle, instruction, created_at, revoked_at
FROM device WHERE event_id = $1 ORDER BY device_id`

// Devices lists the event's devices, revoked ones included, oldest first. It
// fails with CodeNotFound for an event without a home.
func (r *Redeemer) Devices(ctx context.Context, event usher.EventID) ([]Device, error) {
	shard, err := r.homes.Shard(ctx, event)
	if err != nil {
		return nil, err
	}
	// The caller sees what Query failed with when the rows are collected.
	rows, _ := shard.Query(ctx, sqlListDevices, event)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Device, err error) {
		err = row.Scan(&d.ID, &d.Event, &d.Name, &d.Settle, &d.Instruction, &d.CreatedAt, &d.RevokedAt)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list devices of %s: %w", event, pg.Unavailable(err))
	}
	return out, nil
}

const sqlRevokeDevice = `
UPDATE device SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE device_id = $1`

// RevokeDevice ends a device, used before or not: its next claim and its next
// confirmation are refused in every process, and its credential is recognised
// nowhere after two seconds. Doing it again changes nothing. It fails with
// CodeNotFound.
func (r *Redeemer) RevokeDevice(ctx context.Context, id usher.DeviceID) error {
	shard, err := r.homes.Shard(ctx, id.Event())
	if err != nil {
		return err
	}
	err = pg.InTx(ctx, shard, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlRevokeDevice, id)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return usher.Errorf(usher.CodeNotFound, "no such device")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoke device %s: %w", id, err)
	}
	r.devices.drop(id)
	return nil
}

type knownDevice struct {
	device Device
	hash   [sha256.Size]byte
	until  time.Time
}

// deviceCache remembers devices for deviceCacheFor, so that a busy gate costs no
// extra read. Only devices that exist and may act are in it.
type deviceCache struct {
	mu    *sync.Mutex
	known map[usher.DeviceID]knownDevice
}

func newDeviceCache() deviceCache {
	return deviceCache{mu: &sync.Mutex{}, known: map[usher.DeviceID]knownDevice{}}
}

func (c deviceCache) get(id usher.DeviceID) (knownDevice, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[id]
	return k, ok && time.Now().Before(k.until)
}

func (c deviceCache) put(k knownDevice) {
	k.until = time.Now().Add(deviceCacheFor)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= deviceCacheMax {
		clear(c.known)
	}
	c.known[k.device.ID] = k
}

func (c deviceCache) drop(id usher.DeviceID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
}
