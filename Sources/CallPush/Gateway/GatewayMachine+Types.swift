package import CallBus
package import CallCore

extension GatewayMachine {
  package struct Limits: Sendable {
    /// Pushes under way in one pool.
    package var sendsPerPool = 1000
    /// Jobs that wait for one of those places. Policy: a further one goes back into the queue.
    package var waitingPerPool = 1000
    /// After how long a job is handed out again that found no place here.
    package var turnedAwayPause = Duration.milliseconds(250)
    /// After how long a job is handed out again for which there is no sender here: perhaps to a
    /// gateway that has one.
    package var unservedPause = Duration.milliseconds(250)
    /// For so long after it was decided a job may look for a gateway that has a sender for it, but no
    /// longer than for half of its time. Then it is rejected.
    package var unservedFor = Span.seconds(5)
    /// Topics without a sender that are remembered. Policy: the one that was not seen for longest gives
    /// way.
    package var unservedTopicsMax = 32
    /// Pushes to one service, of those that share a pool. Policy: a further one goes back into the
    /// queue, so that a service that answers nobody leaves places to the others.
    package var placesPerService = 250
    /// How often the queue is told that a job is worked on.
    package var workingEvery = Span.seconds(2)
    /// A sender that has not answered so long behind the deadline is not waited for.
    package var overdue = Span.seconds(5)
    /// A ring that was decided so long ago may have been overtaken by its call's end: the shard is asked
    /// whether it still rings before it is sent. So jobs of a gateway that died, and those that waited
    /// while none was there, wake nobody for a call that is over.
    package var askAfter = Span.milliseconds(500)
    /// Without an answer for so long it is sent all the same: a push is a hint.
    package var answerWithin = Span.seconds(1)
    /// A device is told that it is over only if it rings. Where its shard did not know whether the ring had
    /// left, and it did not leave here, another gateway may have dropped it: that one is given so long to
    /// say so.
    package var hearWithin = Span.milliseconds(300)
    /// For how long the fate of a push is remembered: its job may come again.
    package var fatesKept = Span.seconds(120)
    package var fatesMax = 200_000
    package init() {}
  }

  package enum Effect: Sendable, Equatable {
    case settle(item: UInt64, WorkSettlement)
    /// The job was handed out again: nothing will be said of the former item any more.
    case forget(item: UInt64)
    case send(job: UInt64, pool: Int)
    /// The push is not wanted any more; its sender may not begin another attempt.
    case withdraw(job: UInt64)
    /// Ask the job's shard whether its call still rings for the device.
    case ask(question: UInt64, job: UInt64)
    case report(GatewayReports.Pending)
    /// Tell the other gateways that nobody sent the ring.
    case tellNeverSent(PushLeg)
  }

  package enum Count: String, Sendable, CaseIterable {
    /// Jobs past their deadline before they could be sent.
    case late
    /// Rings whose call was over before they could be sent, as the shard said when it was asked.
    case overtaken
    /// Rings of calls of whose end this gateway was told before they could be sent, and what was to tell
    /// devices of the end of a ring that nobody has sent.
    case withdrawn
    /// Jobs handed out again that are, or were, dealt with here.
    case repeated
    /// Jobs that found no place and went back.
    case turnedAway
    /// Jobs for which there was no sender here.
    case unserved
    case reports
    case reportsRepeated
    case reportsGivenUp
    /// Senders that did not answer in time.
    case overdue
    /// Jobs given back because the gateway goes.
    case released
  }
}

extension PushJob {
  var leg: PushLeg { PushLeg(call: call, device: device) }
}
