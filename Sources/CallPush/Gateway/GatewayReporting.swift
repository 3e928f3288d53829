internal import CallCore
internal import CallWire

/// Reports as shards hear them, and their answers.
enum GatewayReporting {
  /// A gateway has no sessions: one number stands for all of it.
  private static let session: UInt64 = 1

  static func batch(_ reports: [GatewayReports.Pending], peer: UInt64) -> CommandBatch {
    CommandBatch(
      peer: peer,
      commands: reports.map { pending in
        Command(
          session: SessionRef(edge: peer, number: session), request: pending.number,
          user: pending.user, device: pending.report.device, callee: pending.user,
          body: .pushReport(pending.report))
      })
  }

  /// The reports that shards have: all but those that they ask to hear again.
  static func answered(_ batch: EdgeBatch) -> [UInt64] {
    batch.items.compactMap { item -> UInt64? in
      guard case .reply(let number, let reply) = item.body else { return nil }
      if case .error(let error) = reply, Self.mayPass(error.code) { return nil }
      return number
    }
  }

  private static func mayPass(_ code: CallError.Code) -> Bool {
    [.tryAgain, .draining, .overloaded, .internalError].contains(code)
  }
}
