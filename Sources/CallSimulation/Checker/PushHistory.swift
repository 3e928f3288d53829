package import CallCore
internal import CallJudge
package import CallWire

/// What is seen of push beside the journal.
package enum PushEvent: Sendable {
  /// A registration was written as it is now, or removed.
  case registration(Who, Registration?)
  /// Whose a token is, by the claims' bucket; nil: nobody's.
  case claim(fingerprint: String, Who?)
  /// The store took two claims of a token that expected the same: which of the two counts is chance.
  case raced(fingerprint: String)
  /// The stored registration may not be what its shard counts on: its writer gave it up and went on,
  /// or was a former owner.
  case unheard(Who)
  case wants(Who, RegistrationRequest)
  case report(Who, PushReport)
  /// Something is wrong with the gateways, or with the provider of one lane.
  case trouble(lane: String?, until: Timestamp)
  case done(PushJob)
  /// A job is new in the work queue. `decided` is the true time at which its shard decided it.
  case job(PushJob, lane: String, decided: Timestamp)
  /// A gateway's process hands a push to its provider; `gatewayTime` is what its clock reads.
  case sent(PushJob, process: Int, gatewayTime: Timestamp)
  /// A push woke the app, which does not know of the call yet.
  case woken(Who, CallID)
  case asked(Who, CallID, ClientCommand)
  /// What it was told; since when it asked.
  case answered(Who, ClientCommand, ServerReply, since: Timestamp)
}

struct PushHistory: Sendable {
  struct Key: Hashable, Sendable, CustomStringConvertible {
    let call: CallID
    let who: Who
    let purpose: PushPurpose

    init(_ job: PushJob) {
      call = job.call
      who = Who(job)
      purpose = job.purpose
    }

    var description: String { "\(purpose.name) to \(who)" }
  }
  struct Stored: Sendable {
    var registration: Registration
    /// Until when it was the stored one; nil: it is.
    var until: Timestamp?
  }

  /// The newest last; what was replaced long ago is forgotten.
  var registrations: [Who: [Stored]] = [:]
  var claims: [String: (owner: Who, at: Timestamp)] = [:]
  var raced: Set<String> = []
  /// Devices whose stored registration may not be what their shard counts on, until they register
  /// again: a later owner that reads it mends nothing. That is not promised not to be
  /// (docs/reliability.md).
  var unheard: Set<Who> = []
  var wanted: [String: Set<Who>] = [:]
  /// Since when a provider said that a token of a device is gone: the latest.
  var gone: [String: [Who: Timestamp]] = [:]
  /// In the work queue, ever: until when each is wanted.
  var jobs: [Key: Timestamp] = [:]
  var waiting: [Key: (lane: String, since: Timestamp)] = [:]
  /// When something was wrong with the gateways, and with the provider of each lane.
  var gateways = FaultCalendar()
  var lanes: [String: FaultCalendar] = [:]
  var senders: [Key: Set<Int>] = [:]
  /// Calls for which a device was woken, and has heard nothing: since when.
  var woken: [Who: [CallID: Timestamp]] = [:]
  /// When a device's connection changed last.
  var unsteady: [Who: Timestamp] = [:]
}
