package conversation

import (
	"context"
	"encoding/json"

	"parley/conversation/internal/db"
)

// DueDelivery is a reply that its platform has not taken yet.
type DueDelivery struct {
	Delivery
	Reason string // why the latest try failed, for the operator; "" when none did
}

// AllDue lists the deliveries to be sent over all sessions, the oldest first.
func (s *Store) AllDue(ctx context.Context, limit int) ([]DueDelivery, error) {
	return s.allDue(ctx, `1 ORDER BY o.id`, limit)
}

// AllHeld lists those of them that are set aside, the one first that has been so
// for the longest time.
func (s *Store) AllHeld(ctx context.Context, limit int) ([]DueDelivery, error) {
	return s.allDue(ctx, `o.held_at IS NOT NULL ORDER BY o.held_at, o.id`, limit)
}

func (s *Store) allDue(ctx context.Context, condition string, limit int) ([]DueDelivery, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`, s.key, o.error FROM outbox o JOIN sessions s ON s.id = o.session_id
		WHERE o.state = 'due' AND `+condition+` LIMIT ?`, limit)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []DueDelivery
	for rows.Next() {
		var d DueDelivery
		var key Key
		if d.Delivery, err = scanDelivery(rows, "", &key, &d.Reason); err != nil {
			return nil, err
		}
		d.Key = key
		list = append(list, d)
	}
	return list, db.Explain(rows.Err())
}

// WaitingInbound is a message that no run has settled yet.
type WaitingInbound struct {
	Inbound
	Channel string // by which it came
}

// AllWaiting lists the messages that wait over all sessions, the oldest first.
func (s *Store) AllWaiting(ctx context.Context, limit int) ([]WaitingInbound, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT i.id, s.key, i.channel, i.account, i.sender, i.text, i.sent_at FROM inbox i JOIN sessions s ON s.id = i.session_id
		WHERE i.run_id IS NULL AND i.note = 0 ORDER BY i.id LIMIT ?`, limit)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []WaitingInbound
	for rows.Next() {
		var in WaitingInbound
		var sender []byte
		var at int64
		if err := rows.Scan(&in.ID, &in.Key, &in.Channel, &in.Account, &sender, &in.Text, &at); err != nil {
			return nil, err
		}
		if len(sender) > 0 {
			if err := json.Unmarshal(sender, &in.Sender); err != nil {
				return nil, err
			}
		}
		in.At = db.FromMillis(at)
		list = append(list, in)
	}
	return list, db.Explain(rows.Err())
}
