package import CallBus
public import CallCore
internal import Crypto

extension GatewayMachine {
  package struct Limits: Sendable {
    /// Pushes under way in one pool.
    package var sendsPerPool = 1000
    /// Jobs that wait for one of those places, and, beside them, notices whose senders pause. Policy: a further one
    /// returns to the queue.
    package var waitingPerPool = 1000
    /// The time until a notice that could not pause here is redelivered: its pause, within these bounds. The lower one
    /// is the longest pause that a sender makes of its own accord, since attempts are counted anew. The upper one is
    /// far below the age at which the queue removes a job.
    package var putOff = Span.seconds(16)...Span.seconds(300)
    /// The time until a job that found no place is redelivered.
    package var turnedAwayPause = Duration.milliseconds(250)
    /// The time until a job without a sender here is redelivered, perhaps to a gateway that has one.
    package var unservedPause = Duration.milliseconds(250)
    /// The time after its decision for which a job without a sender is redelivered; at most half of the time to its
    /// deadline. It is then rejected.
    package var unservedFor = Span.seconds(5)
    /// Topics without a sender that are remembered. Policy: drop the least recently seen.
    package var unservedTopicsMax = 32
    /// Pushes to one of the services that share a pool. Policy: a further one returns to the queue, so that a service
    /// that does not answer leaves places for the others.
    package var placesPerService = 250
    /// Interval of `.inProgress` to the queue.
    package var workingEvery = Span.seconds(2)
    /// The time after the deadline at which a sender that has not answered is given up.
    package var overdue = Span.seconds(5)
    /// The age from which a ring is sent only after asking the shard whether the call still rings. So jobs of a gateway
    /// that died, or that waited for one, wake no device for a call that is over.
    package var askAfter = Span.milliseconds(500)
    /// The time to wait for that answer; the ring is then sent anyway, since a push is a hint.
    package var answerWithin = Span.seconds(1)
    /// How long a clean-up waits for other gateways, if its shard did not know whether the ring was sent and this
    /// gateway did not send it: another may report that it dropped the ring. Only a device that rings gets a clean-up.
    package var neverSentWait = Span.milliseconds(300)
    /// How long a clean-up waits for the outcome of its ring, which a sender here has. A ring that is withdrawn between
    /// two attempts ends at once, and needs none.
    package var ringOutcomeWait = Span.seconds(1)
    /// How long a completed push is remembered, since its job may be redelivered.
    package var fatesKept = Span.seconds(120)
    package var fatesMax = 200_000
    package init() {}
  }

  package enum Effect: Sendable, Equatable {
    case settle(item: UInt64, WorkSettlement)
    /// The job was redelivered: the former item will not be settled.
    case forget(item: UInt64)
    case send(job: UInt64, pool: Int)
    /// Cancel the push: its sender may not begin another attempt.
    case withdraw(job: UInt64)
    /// Query the job's shard whether its call still rings for the device.
    case ask(question: UInt64, job: UInt64)
    case report(GatewayReports.Pending)
    /// Notify the other gateways that the ring was dropped unsent.
    case notifyNeverSent(PushLeg)
  }

  package enum Count: String, Sendable, CaseIterable {
    /// Jobs past their deadline before they could be sent.
    case late
    /// Rings whose call was over before they could be sent, as the shard answered.
    case overtaken
    /// Rings that were withdrawn before they could be sent, and clean-ups of rings that were never sent.
    case withdrawn
    /// Redelivered jobs that are, or were, handled here.
    case repeated
    /// Jobs that found no place and returned to the queue.
    case turnedAway
    /// Jobs for which there was no sender here.
    case unserved
    case reports
    case reportsRepeated
    case reportsGivenUp
    /// Senders that did not answer in time.
    case overdue
    /// Jobs returned because the gateway drains.
    case released
  }
}

extension PushJob {
  var leg: PushLeg { PushLeg(call: call, user: user.user, device: device, round: round) }
  var ringing: PushRinging { PushRinging(call: call, round: round) }
}

/// Identifies a push. Two deliveries of a job, or two equal jobs, are one push.
public struct PushIdentity: Sendable, Hashable {
  public var call: CallID
  public var device: DeviceID
  public var purpose: PushPurpose
  /// The token's: a device has two.
  public var fingerprint: String
  public var round: UInt8

  public init(_ job: PushJob) {
    call = job.call
    device = job.device
    purpose = job.purpose
    fingerprint = job.token.fingerprint
    round = job.round
  }

  /// A UUID of version 8 (RFC 9562, 5.8), in lower case as `apns-id` requires: the same on every gateway and for every
  /// attempt, so that a device detects a second copy. A second ringing of a call is no copy of the first one.
  public var uuid: String {
    var hash = SHA256()
    hash.update(data: Array("callmesh push\0".utf8))
    for half in [call.high, call.low] {
      hash.update(data: (0..<8).map { UInt8(truncatingIfNeeded: half >> (56 - 8 * $0)) })
    }
    hash.update(data: [purpose.rawValue])
    hash.update(data: Array(device.text.utf8) + [0])
    hash.update(data: Array(fingerprint.utf8))
    if round > 0 { hash.update(data: [0, round]) }
    var bytes = Array(hash.finalize().prefix(16))
    bytes[6] = bytes[6] & 0x0f | 0x80
    bytes[8] = bytes[8] & 0x3f | 0x80
    return [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { hexText(bytes[$0]) }.joined(separator: "-")
  }
}
