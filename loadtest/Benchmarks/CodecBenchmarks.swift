import CallCore
import CallWire

/// The codec: frames of devices, and what nodes say to each other.
enum CodecBenchmarks {
  static let id = CallID("8f14e45f-ceea-467f-a0e6-2b0f3f1d2c3b")!
  static let address = CallAddress(callee: "bob", call: id)

  static var clientFrames: [(String, ClientFrame)] {
    let place = PlaceRequest(
      call: id, ringTimeoutSeconds: 30, description: String(repeating: "a=candidate ", count: 8))
    return [
      ("place", ClientFrame(id: 7, command: .place(address, place))),
      ("ack", ClientFrame(id: 0, command: .ack([AckItem(call: address, version: 1_048_577)]))),
      ("answer", ClientFrame(id: 8, command: .call(address, .answer(description: "v=0")))),
    ]
  }

  static var serverFrames: [(String, ServerFrame)] {
    let at = Timestamp(microseconds: 1_700_000_000_000_000)
    func delivery(_ event: Delivery.Event) -> ServerFrame {
      .delivery(Delivery(call: id, callee: "bob", version: 1_048_577, at: at, event: event))
    }
    let alice = Party(user: "alice", device: "a1", deviceName: "Alice's phone")
    let invite = Invite(caller: alice, deadline: at, description: String(repeating: "x", count: 96))
    return [
      ("invite", delivery(.invite(invite))),
      ("stop", delivery(.stop(Stop(reason: .answeredElsewhere, by: alice)))),
      ("reply", .reply(id: 7, .done)),
    ]
  }

  static func run(_ measure: Measure) {
    for codec in DeviceCodec.allCases {
      let runs = codec == .protobuf ? 100_000 : 10_000
      for (name, frame) in clientFrames {
        let bytes = codec.encode(frame)
        measure("codec: \(codec) decode \(name) (\(bytes.count) B)", runs: runs) { _ in
          bytes.withUnsafeBytes { blackHole(try? codec.decodeClient($0, limits: CallLimits())) }
        }
      }
      for (name, frame) in serverFrames {
        measure("codec: \(codec) encode \(name) (\(codec.encode(frame).count) B)", runs: runs) {
          _ in blackHole(codec.encode(frame))
        }
      }
    }
    let commands = (0..<20).map { number in
      CoreBenchmarks.command(
        .ack([Acknowledgement(call: id, version: 9)]), device: "b1", callee: CoreBenchmarks.bob,
        number: UInt64(number))
    }
    for count in [1, 20] {
      let batch = CommandBatch(edge: 1, commands: Array(commands.prefix(count)))
      let bytes = ClusterCodec.encode(batch)
      measure("codec: command batch of \(count), encode", per: "batch", runs: 20_000) { _ in
        blackHole(ClusterCodec.encode(batch))
      }
      measure("codec: command batch of \(count), decode", per: "batch", runs: 20_000) { _ in
        blackHole(try? ClusterCodec.commandBatch(bytes))
      }
    }
  }
}
