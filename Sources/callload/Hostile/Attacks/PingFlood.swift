import CallWire

extension AttackContext {
  /// Each ping asks for a pong of its size, which nobody reads.
  func floodPings() {
    let fleet = keepWebSockets(
      subprotocol: { _ in DeviceCodec.protobuf.subprotocol },
      opened: { socket, _ in socket.stopReading() })
    let lot = 500
    let ping = AttackBytes.frame(.ping, [UInt8](repeating: 0x70, count: 125))
    let pings = Array(repeatElement(ping, count: lot).joined())
    paceAttack(lot: lot) { [self] in
      guard let (_, socket) = fleet.next(of: attack.facts.connections) else { return }
      if socket.write(pings) { account.attempts += lot }
    }
  }
}
