package postgres

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// resultFormats makes the server send booleans, integers and bytes in binary format. Other values come as text.
var resultFormats = pgx.QueryResultFormatsByOID{
	pgtype.BoolOID: pgtype.BinaryFormatCode, pgtype.ByteaOID: pgtype.BinaryFormatCode,
	pgtype.Int2OID: pgtype.BinaryFormatCode, pgtype.Int4OID: pgtype.BinaryFormatCode, pgtype.Int8OID: pgtype.BinaryFormatCode,
}

// rows are the rows of a query, which come from the server while they are read. When the connection is
// needed for another statement, the remaining rows are read into memory.
type rows struct {
	conn   *conn
	sent   pgx.Rows
	first  bool // sent is at the first row, which Next has not returned yet
	fields []pgconn.FieldDescription
	kept   [][]driver.Value // the rows that were read into memory
	ended  bool             // the server has sent all rows
	err    error
}

// read returns the rows of a query. It waits for the first row, since the server sends most errors in place of it.
func (c *conn) read(sent pgx.Rows) (driver.Rows, error) {
	r := &rows{conn: c, sent: sent, first: sent.Next()}
	if err := sent.Err(); err != nil {
		return nil, unsent(err)
	}
	r.fields = sent.FieldDescriptions()
	if r.first {
		c.reading = r
	} else {
		r.ended = true
	}
	return r, nil
}

// finishReading reads the rows of a query that have not come yet into memory, if there are any.
func (c *conn) finishReading() error {
	if c.reading == nil {
		return nil
	}
	r := c.reading
	for {
		values := make([]driver.Value, len(r.fields))
		err := r.receive(values)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			r.err = err
			return err
		}
		r.kept = append(r.kept, values)
	}
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string {
	names := make([]string, len(r.fields))
	for i, field := range r.fields {
		names[i] = field.Name
	}
	return names
}

// Next implements driver.Rows.
func (r *rows) Next(values []driver.Value) error {
	if len(r.kept) > 0 {
		copy(values, r.kept[0])
		r.kept = r.kept[1:]
		return nil
	}
	return r.receive(values)
}

// receive reads the next row from the server. It returns io.EOF after the last one.
func (r *rows) receive(values []driver.Value) error {
	if r.ended {
		if r.err != nil {
			return r.err
		}
		return io.EOF
	}
	if !r.first && !r.sent.Next() {
		r.end()
		return r.receive(values)
	}
	r.first = false
	for i, raw := range r.sent.RawValues() {
		value, err := valueOf(r.fields[i], raw)
		if err != nil {
			return fmt.Errorf("column %s: %w", r.fields[i].Name, err)
		}
		values[i] = value
	}
	return nil
}

func (r *rows) end() {
	r.ended, r.err = true, r.sent.Err()
	if r.conn.reading == r {
		r.conn.reading = nil
	}
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	r.kept = nil
	if !r.ended {
		r.sent.Close()
		r.end()
	}
	return r.err
}

// valueOf decodes a value that the server has sent. Like SQLite, it returns 0 or 1 for booleans.
func valueOf(field pgconn.FieldDescription, raw []byte) (driver.Value, error) {
	if raw == nil {
		return nil, nil
	}
	switch field.DataTypeOID {
	case pgtype.BoolOID:
		return flagValue(raw[0] == 1 || raw[0] == 't'), nil
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return integer(field.Format, raw)
	case pgtype.Float4OID, pgtype.Float8OID:
		return strconv.ParseFloat(string(raw), 64)
	case pgtype.ByteaOID:
		return byteString(field.Format, raw)
	}
	return string(raw), nil
}

func integer(format int16, raw []byte) (driver.Value, error) {
	if format == pgtype.TextFormatCode {
		return strconv.ParseInt(string(raw), 10, 64)
	}
	switch len(raw) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(raw))), nil
	case 4:
		return int64(int32(binary.BigEndian.Uint32(raw))), nil
	case 8:
		return int64(binary.BigEndian.Uint64(raw)), nil
	}
	return nil, fmt.Errorf("an integer of %d bytes", len(raw))
}

func byteString(format int16, raw []byte) (driver.Value, error) {
	if format == pgtype.BinaryFormatCode {
		return bytes.Clone(raw), nil
	}
	var text []byte
	err := (pgtype.ByteaCodec{}).PlanScan(nil, pgtype.ByteaOID, format, &text).Scan(raw, &text)
	return text, err
}

func flagValue(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
