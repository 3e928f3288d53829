internal import CallCore
internal import CallWire

/// The commands of a gateway to shards, and their answers.
enum GatewayReporting {
  /// A gateway has no sessions; it uses one number.
  private static let session: UInt64 = 1

  static func report(_ pending: GatewayReports.Pending, peer: UInt64) -> Command {
    Command(
      session: SessionRef(edge: peer, number: session), request: pending.number,
      user: pending.user, device: pending.report.device, callee: pending.callee,
      body: .pushReport(pending.report))
  }

  /// Distinguishes queries from reports among the numbers of requests.
  private static let questionBit: UInt64 = 1 << 62

  /// Queries whether the job's call still rings for its device.
  static func question(_ number: UInt64, _ job: PushJob, peer: UInt64) -> Command {
    Command(
      session: SessionRef(edge: peer, number: session), request: questionBit | number,
      user: job.user, device: job.device, callee: job.callee, body: .call(job.call, .query))
  }

  struct Answers: Sendable {
    /// The acknowledged reports: all but those that the shard wants retransmitted.
    var reports: [UInt64] = []
    var questions: [(number: UInt64, rings: Bool)] = []
    var isEmpty: Bool { reports.isEmpty && questions.isEmpty }
  }

  static func answers(_ batch: EdgeBatch) -> Answers {
    var answers = Answers()
    for item in batch.items {
      guard case .reply(let number, let reply) = item.body else { continue }
      if number & questionBit != 0 {
        guard case .call(let state) = reply else { continue }
        answers.questions.append((number & ~questionBit, state.isRinging))
      } else {
        if case .error(let error) = reply, Self.isTransient(error.code) { continue }
        answers.reports.append(number)
      }
    }
    return answers
  }

  private static func isTransient(_ code: CallError.Code) -> Bool {
    [.tryAgain, .draining, .overloaded, .internalError].contains(code)
  }
}

extension CallState {
  fileprivate var isRinging: Bool {
    switch phase {
    case .placed, .ringing: true
    case .unknown, .answered, .ended: false
    }
  }
}
