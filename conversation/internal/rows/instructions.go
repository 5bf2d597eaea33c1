package rows

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"parley/conversation/internal/db"
)

// instructionBytes is the maximum size of the instructions of a session in bytes. They are limited
// since the model is told them in every run.
const instructionBytes = 16 << 10

// CheckInstructions returns an error that wraps db.ErrInvalid if instructions are too long.
func CheckInstructions(texts []string) error {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if size > instructionBytes {
		return fmt.Errorf("%w: the instructions of the session would have %d bytes, at most %d are taken", db.ErrInvalid, size, instructionBytes)
	}
	return nil
}

// HashInstructions returns the hash of a list of instructions and the JSON that is stored.
func HashInstructions(texts []string) (hash string, list []byte, err error) {
	if list, err = json.Marshal(texts); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(list)
	return hex.EncodeToString(sum[:]), list, nil
}

// InsertInstructions stores instructions that were in force in a run of a conversation.
func InsertInstructions(ctx context.Context, tx db.Tx, conversation int64, texts []string) error {
	hash, list, err := HashInstructions(texts)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO run_instructions (conversation_id, hash, list) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, conversation, hash, string(list))
	}
	return err
}
