"""A handler of dead letters as another team might write it: pika, protobuf and nothing of ours.

It knows the contract only: `retry_message.proto`, from which its classes are generated when it
starts, and the names of queues. Each command reads JSON from standard input and answers with JSON
on standard output; payloads are base64 in both.

    hand-in  publishes RetryMessages: [{"message": {…}, "properties": {…}, "raw": "…"}, …]
    take     takes messages from a queue, and says what they were
    handle   hands in a message, and again whenever it comes back, until it is in review
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import sys
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc_tools
import pika
from grpc_tools import protoc
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.spec import Basic, BasicProperties

# When to give up waiting for messages.
DEADLINE_SECONDS = 60.0

# Values as they are in JSON.
Json = Any


def generated_from(proto: Path) -> Any:
    """The module with the classes of a .proto file, generated in a folder that is gone afterwards."""
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{proto.parent}", f"-I{well_known}", f"--python_out={folder}"]
        if protoc.main([*arguments, str(proto)]) != 0:
            sys.exit(f"{proto} cannot be compiled")
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        try:
            return importlib.import_module(f"{proto.stem}_pb2")
        finally:
            sys.path.remove(folder)


def encoded(contract: Any, fields: dict[str, Json]) -> bytes:
    """A RetryMessage with these fields, as bytes."""
    fields = dict(fields)
    payload = base64.b64decode(fields.pop("original_payload", ""))
    message: bytes = contract.RetryMessage(original_payload=payload, **fields).SerializeToString()
    return message


def described(properties: BasicProperties, body: bytes) -> dict[str, Json]:
    """A message as it was taken from a queue."""
    return {
        "payload": base64.b64encode(body).decode(),
        "headers": properties.headers or {},
        "content_type": properties.content_type,
        "content_encoding": properties.content_encoding,
        "correlation_id": properties.correlation_id,
        "delivery_mode": properties.delivery_mode,
        "message_id": properties.message_id,
        "priority": properties.priority,
        "reply_to": properties.reply_to,
        "type": properties.type,
    }


def publish(channel: BlockingChannel, queue: str, body: bytes, properties: BasicProperties) -> None:
    """Publishes durably; fails unless RabbitMQ confirms that it is in the queue."""
    properties.delivery_mode = 2
    channel.basic_publish("", queue, body, properties, mandatory=True)


def hand_in(channel: BlockingChannel, contract: Any, queue: str, entries: Json) -> Json:
    """Publishes what is given: a message by its fields, and perhaps raw bytes after it."""
    for entry in entries:
        body = encoded(contract, entry["message"]) + base64.b64decode(entry.get("raw", ""))
        publish(channel, queue, body, BasicProperties(**entry.get("properties", {})))
    return len(entries)


def take(channel: BlockingChannel, queue: str, count: int) -> Json:
    """Takes so many messages from a queue, waiting for them."""
    taken: list[Json] = []
    channel.basic_qos(prefetch_count=1)
    for method, properties, body in channel.consume(queue, inactivity_timeout=DEADLINE_SECONDS):
        if method is None:
            sys.exit(f"{queue} has {len(taken)} messages, not {count}")
        channel.basic_ack(method.delivery_tag)
        taken.append(described(properties, body))
        if len(taken) == count:
            break
    channel.cancel()
    return taken


@dataclass
class DeadLetterHandler:
    """A service whose message fails every time, and the handler of its dead letters."""

    channel: BlockingChannel
    contract: Any
    retry_queue: str
    # The message as it fails first.
    message: dict[str, Json]
    # Whether the count of the copy that failed is handed in, or always 0.
    counts: bool
    # Copies that came back, and the one in review.
    copies: list[Json] = field(default_factory=list)
    review: list[Json] = field(default_factory=list)

    def hand_in(self, retry_count: int) -> None:
        """Says that the message failed. One that does not count says nothing else, either."""
        body = encoded(self.contract, {**self.message, "retry_count": retry_count})
        own_id = str(uuid.uuid4()) if self.counts else None
        publish(self.channel, self.retry_queue, body, BasicProperties(message_id=own_id))

    def on_copy(
        self, _: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes
    ) -> None:
        """A copy came back, and fails again."""
        self.copies.append(described(properties, body))
        self.hand_in(properties.headers["x-retry-count"] if self.counts else 0)
        self.channel.basic_ack(method.delivery_tag)

    def on_review(
        self, _: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes
    ) -> None:
        """People are asked: that was all."""
        self.review.append(described(properties, body))
        self.channel.basic_ack(method.delivery_tag)
        self.channel.stop_consuming()


def handle(
    connection: BlockingConnection, handler: DeadLetterHandler, queue: str, review_queue: str
) -> Json:
    """Lets a message fail until it is in review."""
    handler.channel.basic_consume(queue, handler.on_copy)
    handler.channel.basic_consume(review_queue, handler.on_review)
    connection.call_later(DEADLINE_SECONDS, handler.channel.stop_consuming)
    handler.hand_in(0)
    handler.channel.start_consuming()
    return {"copies": handler.copies, "review": handler.review}


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proto", type=Path, required=True, help="the contract")
    parser.add_argument("--url", required=True, help="where RabbitMQ is")
    commands = parser.add_subparsers(dest="command", required=True)
    handing_in = commands.add_parser("hand-in")
    handing_in.add_argument("--queue", required=True)
    taking = commands.add_parser("take")
    taking.add_argument("--queue", required=True)
    taking.add_argument("--count", type=int, required=True)
    handling = commands.add_parser("handle")
    handling.add_argument("--queue", required=True, help="of the service whose message fails")
    handling.add_argument("--retry-queue", required=True)
    handling.add_argument("--review-queue", required=True)
    handling.add_argument("--counts", action="store_true", help="hand in what x-retry-count says")
    return parser.parse_args()


def main() -> None:
    """Runs one command."""
    asked = arguments()
    contract = generated_from(asked.proto)
    connection = BlockingConnection(pika.URLParameters(asked.url))
    channel = connection.channel()
    channel.confirm_delivery()
    given = json.load(sys.stdin)
    answer: Json
    match asked.command:
        case "hand-in":
            answer = hand_in(channel, contract, asked.queue, given)
        case "take":
            answer = take(channel, asked.queue, asked.count)
        case _:
            handler = DeadLetterHandler(
                channel, contract, asked.retry_queue, given, counts=asked.counts
            )
            answer = handle(connection, handler, asked.queue, asked.review_queue)
    connection.close()
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
