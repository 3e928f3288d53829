import CallCore
import CallWire

extension AttackContext {
  /// Attaches, then sends frames with mutated bytes, one in ten with a mutated WebSocket header.
  func sendGarbage() {
    let fleet = keepWebSockets(
      subprotocol: { Self.codec($0).subprotocol },
      opened: { [self] socket, number in
        let request = AttachRequest(token: token(user: "hostile-garbage-\(number)"), device: "g")
        let codec = Self.codec(number)
        socket.write(frame(codec, codec.encode(ClientFrame(id: 1, command: .attach(request)))))
      })
    paceAttack(fleet) { [self] socket, number in
      let codec = Self.codec(number)
      var bytes = frame(codec, mutated(codec.encode(sample())))
      if Int.random(in: 0..<10, using: &random) == 0 {
        change(&bytes, in: 0..<min(14, bytes.count))
      }
      return socket.write(bytes)
    }
  }

  private static func codec(_ number: Int) -> DeviceCodec {
    number.isMultiple(of: 2) ? .protobuf : .json
  }

  private func frame(_ codec: DeviceCodec, _ payload: [UInt8]) -> [UInt8] {
    AttackBytes.frame(codec == .json ? .text : .binary, payload)
  }

  private func sample() -> ClientFrame {
    let address = CallAddress(callee: "nobody", call: callID())
    let commands: [ClientCommand] = [
      place(to: "nobody", descriptionBytes: 300), .call(address, .query), .call(address, .resume),
      .calls,
      .call(address, .signal(.candidate, body: "candidate")), .call(address, .hangUp),
      .call(address, .decline(.everywhere)),
      .ack([AckItem(call: address, version: 7)]), .call(address, .answer(description: "answer")),
      .register(RegistrationRequest(deviceName: "g", sdkName: "callload")), .ping, .detach,
    ]
    return ClientFrame(id: random.next() >> 12, command: commands.randomElement(using: &random)!)
  }

  private func mutated(_ frame: [UInt8]) -> [UInt8] {
    var bytes = frame
    switch Int.random(in: 0..<4, using: &random) {
    case 0: bytes.removeLast(Int.random(in: 0...bytes.count, using: &random))
    case 1: bytes += (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
    case 2: bytes = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
    default: break
    }
    for _ in 0..<Int.random(in: 1...8, using: &random) { change(&bytes, in: bytes.indices) }
    return bytes
  }

  private func change(_ bytes: inout [UInt8], in range: Range<Int>) {
    guard let at = range.randomElement(using: &random) else { return }
    bytes[at] = UInt8.random(in: 0...255, using: &random)
  }
}
