internal import CallCore

/// The state that a simulator's connections share, under one lock.
struct APNsSimulatorCore {
  var rules: APNsRules
  var knowledge: APNsRules.Knowledge
  var script: APNsScriptState
  var shelf = APNsShelf()
  var report = APNsReport()
  /// Connections that are open.
  var open = 0

  /// A connection was accepted.
  /// - Returns: its number and its fault.
  mutating func accept(now: Timestamp) -> (number: Int, fault: APNsConnectionFault?) {
    report.connectionsTotal += 1
    open += 1
    report.connectionsOpenMax = max(report.connectionsOpenMax, open)
    let number = report.connectionsTotal
    if number <= APNsReport.connectionsKept {
      report.connections.append(.init(number: number, openedAt: now))
    }
    return (number, script.fault(ofConnection: number))
  }

  mutating func ended(_ connection: Int, now: Timestamp) {
    open -= 1
    script.connectionEnded(connection)
    if report.connections.indices.contains(connection - 1) {
      report.connections[connection - 1].closedAt = now
    }
  }

  /// - Returns: the verdict on a request, and the faults that strike it.
  mutating func judge(
    _ request: APNsRequest, connection: Int, identity: inout ConnectionIdentity, now: Timestamp
  ) -> (verdict: APNsRules.Verdict, faults: [APNsFault]) {
    let tokensBefore = identity.tokenUses.count
    let verdict = rules.judge(
      request, connection: connection, identity: &identity, knowledge: &knowledge, now: now)
    if identity.tokenUses.count > tokensBefore {
      report.providerTokens += 1
      if report.connections.indices.contains(connection - 1) {
        report.connections[connection - 1].providerTokenUses = identity.tokenUses
      }
    }
    for violation in verdict.violations {
      report.note(
        violation, connection: connection,
        about: verdict.response.reason.map { "answered \($0.rawValue)" } ?? "")
    }
    return (verdict, script.faults(connection: connection, token: verdict.token, now: now))
  }

  mutating func answered(_ response: APNsResponse, token: String?, connection: Int) {
    if let reason = response.reason {
      report.responses["\(reason.status) \(reason.rawValue)", default: 0] += 1
      let isKnown = token.map { report.pushesByToken[$0] != nil } ?? false
      if reason == .badDeviceToken, isKnown { report.goodTokensRefused += 1 }
    } else {
      report.responses["200", default: 0] += 1
      report.noteAccepted(token ?? "", connection: connection)
      if let token { script.noteAccepted(token) }
    }
  }

  /// - Returns: whether the device gets the push now.
  mutating func delivers(_ push: APNsPush) -> Bool {
    shelf.delivers(push, to: knowledge.book[push.token]?.device ?? push.token)
  }

  var reportNow: APNsReport {
    var report = report
    report.dropped = shelf.dropped
    report.replaced = shelf.replaced
    report.expired = shelf.expired
    return report
  }
}
