-- +goose Up
CREATE TABLE message (
    id   INTEGER PRIMARY KEY,
    room TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX message_room ON message (room, id);

-- +goose Down
DROP TABLE message;
