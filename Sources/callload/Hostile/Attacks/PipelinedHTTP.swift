import CallClient

extension AttackContext {
  /// Answers are many times as long as requests: where nobody bounds those that wait, memory grows.
  func pipelineHTTP() {
    let fleet = keepSockets { socket, _ in socket.stopReading() }
    let pair =
      AttackBytes.get("/metrics", edges[0]) + AttackBytes.get("/healthz", edges[0])
    let lot = 100
    let requests = Array(String(repeating: pair, count: lot / 2).utf8)
    paceAttack(lot: lot, fleet) { socket, _ in socket.write(requests) }
  }
}
