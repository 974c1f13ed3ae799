-- name: AddMessage :one
INSERT INTO message (room, body) VALUES (?, ?) RETURNING id, room, body, seen;

-- name: ListMessages :many
SELECT id, room, body, seen FROM message WHERE room = ? ORDER BY id;

-- name: MarkSeen :execrows
UPDATE message SET seen = 1 WHERE room = ? AND id <= ?;
