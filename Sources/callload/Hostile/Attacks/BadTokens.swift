import CallClient

extension AttackContext {
  /// Each signature differs, so that nothing can be remembered of the one before.
  func sendBadTokens() {
    let fleet = keepSockets { [self] socket, _ in
      socket.onRead = { [self] _, bytes in countHTTP(bytes) }
    }
    // Made beforehand: it is the edge's work that counts.
    let tokens = (0..<1_000).map { forgedToken(user: "hostile-\($0 % 10)") }
    var next = 0
    let lot = 20
    paceAttack(lot: lot, fleet) { [self] socket, _ in
      var requests = ""
      for _ in 0..<lot {
        next += 1
        requests += AttackBytes.get(
          "/v1/calls/nobody/\(callID())", edges[0], token: tokens[next % tokens.count])
      }
      return socket.write(requests.utf8)
    }
  }
}
