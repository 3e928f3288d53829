import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import NIOCore
import Testing

private let call = CallID(high: 1, low: 2)
private let ann = UserKey(app: "demo", user: "ann")

/// Frames that are too large, bad, or come in pieces.
extension EdgeSessionTests {
  /// So that its command is not taken for unanswered, and retransmitted for ever.
  @Test(arguments: DeviceCodec.allCases) func aFrameThatIsTooLargeIsRefusedUnderItsID(
    codec: DeviceCodec
  ) async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone", codec: codec)
      let text = String(repeating: "x", count: 900_000)
      client.say(
        33,
        .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call, description: text)))
      #expect(try await client.errorReply() == (33, .frameTooLarge))
      client.say(34, .ping)
      #expect(try await client.reply() == (34, .done))
    }
  }

  /// Before its attach no client may send as much in JSON as an attached device may.
  @Test func jsonMayBeLongerForItsEscapes() async throws {
    try await EdgeFixture.run { edge in
      let stranger = try await edge.client()
      stranger.codec = .json
      try await stranger.upgrade(DeviceCodec.json.subprotocol)
      stranger.send(
        clientFrame(
          1, Array(#"{"id":3,"attach":{"token":""#.utf8) + [UInt8](repeating: 65, count: 131_072)))
      #expect(try await stranger.errorReply() == (3, .frameTooLarge))
      let (client, _) = try await edge.device("ann", "phone", codec: .json)
      let escapes = String(repeating: "\u{1}", count: 65_536)
      client.say(
        2,
        .place(
          CallAddress(callee: "bob", call: call), PlaceRequest(call: call, description: escapes)))
      #expect(try await client.reply().id == 2)
      let place = try await edge.shards.next { if case .place = $0.body { true } else { false } }
      guard case .place(let request) = place.body else { return }
      #expect(request.setup.description == escapes)
    }
  }

  @Test func badFramesDisturbNobody() async throws {
    try await EdgeFixture.run { edge in
      let good = try await edge.device("bob", "phone")
      let bad = try await edge.device("ann", "phone")
      let valid = DeviceCodec.protobuf.encode(ClientFrame(id: 9, command: .detach))
      let cases: [([UInt8], CallError.Code)] = [
        (clientFrame(2, [0xff, 0xff, 0xff]), .malformedFrame),
        (clientFrame(1, valid), .wrongFrameType),
        (clientFrame(2, [UInt8](repeating: 0, count: 131_073)), .frameTooLarge),
        // A frame with an id and no command.
        (clientFrame(2, [0x08, 0x05]), .unknownCommand),
      ]
      for (bytes, code) in cases {
        bad.client.send(bytes)
        #expect(try await bad.client.errorReply().code == code)
      }
      bad.client.say(7, .attach(AttachRequest(token: "x")))
      #expect(try await bad.client.errorReply() == (7, .alreadyAttached))
      bad.client.say(8, .call(CallAddress(call: call), .query))
      #expect(try await bad.client.reply().id == 8)
      // An unmasked frame: nothing behind it can be understood.
      bad.client.send([0x82, 0x01, 0x00])
      #expect(try await bad.client.frame().closeCode == 1002)
      bad.client.send(clientFrame(8, [0x03, 0xea]))
      try await bad.client.end()

      good.client.say(2, .call(CallAddress(call: call), .query))
      #expect(try await good.client.reply().id == 2)
      #expect(edge.metric("callmesh_edge_sessions") == 1)
    }
  }

  @Test func framesInPiecesAndPings() async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone")
      let bytes = DeviceCodec.protobuf.encode(
        ClientFrame(id: 2, command: .call(CallAddress(call: call), .query)))
      let half = bytes.count / 2
      let stream =
        clientFrame(2, Array(bytes[..<half]), final: false) + clientFrame(9, Array("p".utf8))
        + clientFrame(0, Array(bytes[half...]))
      for byte in stream { client.send([byte]) }
      #expect(
        try await client.frame() == RawClient.Frame(opcode: 10, payload: Array("p".utf8)))
      #expect(try await client.reply().id == 2)
    }
  }
}
