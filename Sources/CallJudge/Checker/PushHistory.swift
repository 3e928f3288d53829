package import CallCore
package import CallWire

/// Observations of push other than the journal.
package enum PushEvent: Sendable {
  /// A registration was written as it is now, or removed.
  case registration(Who, Registration?)
  /// The owner of a token by the bucket of claims; nil: none.
  case claim(fingerprint: String, Who?)
  /// The store took two racing claims of a token. Either may be the valid one.
  case raced(fingerprint: String)
  /// The stored registration may differ from what its shard believes: its writer gave the write up,
  /// or was a former owner.
  case unconfirmed(Who)
  case wants(Who, RegistrationRequest)
  case report(Who, PushReport)
  /// Something is wrong with the gateways, or with the provider of one lane.
  case trouble(lane: String?, until: Timestamp)
  case done(PushJob)
  /// A job is new in the work queue. `decided` is the true time at which its shard decided it.
  case job(PushJob, lane: String, decided: Timestamp)
  /// A gateway's process hands a push to its provider; `gatewayTime` is what its clock reads.
  case sent(PushJob, process: Int, gatewayTime: Timestamp)
  /// A provider says for good that a token is gone.
  case gone(fingerprint: String)
  /// A ring was never taken, although its provider was up for the last seconds before the deadline.
  case silence(PushJob)
  /// A push woke the app, which does not have the call yet.
  case woken(Who, CallID)
  case asked(Who, CallID, ClientCommand)
  /// The reply to `asked`.
  case answered(Who, ClientCommand, ServerReply, since: Timestamp)
}

package struct PushHistory: Sendable {
  package struct Key: Hashable, Sendable, CustomStringConvertible {
    let call: CallID
    let who: Who
    let purpose: PushPurpose
    let round: UInt8

    package init(_ job: PushJob) {
      round = job.round
      call = job.call
      who = Who(job)
      purpose = job.purpose
    }

    package var description: String { "\(purpose.name) to \(who)" }
  }
  struct Stored: Sendable {
    var registration: Registration
    /// When it was replaced or removed; nil: it is the present one.
    var until: Timestamp?
  }

  /// The newest is last. Those that were replaced long ago are removed.
  var registrations: [Who: [Stored]] = [:]
  var claims: [String: (owner: Who, at: Timestamp)] = [:]
  var raced: Set<String> = []
  /// Devices whose stored registration may differ from what their shard believes, until they register
  /// again: a later owner's read does not change that. The product allows this (docs/reliability.md).
  var unconfirmed: Set<Who> = []
  var wanted: [String: Set<Who>] = [:]
  /// Those of which a provider said for good that they are gone.
  var saidGone: Set<String> = []
  /// The latest time from which a provider reported a device's token as invalid.
  var gone: [String: [Who: Timestamp]] = [:]
  /// The deadlines of all jobs that were ever in the work queue.
  var jobs: [Key: Timestamp] = [:]
  var waiting: [Key: (lane: String, since: Timestamp)] = [:]
  /// Faults of the gateways, and of the provider of each lane.
  var gateways = FaultCalendar()
  var lanes: [String: FaultCalendar] = [:]
  var senders: [Key: Set<Int>] = [:]
  /// When a device was woken for a call of which it has not been notified since.
  var woken: [Who: [CallID: Timestamp]] = [:]
  /// When a device's connection changed last.
  var unsteady: [Who: Timestamp] = [:]
}
