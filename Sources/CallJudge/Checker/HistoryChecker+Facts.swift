internal import CallCore
internal import CallWire

/// The facts that the checker knows of calls, devices, connections and owners.
extension HistoryChecker {
  struct Facts: Sendable {
    // In the journal.
    var placed: PlacedFacts?
    var alerting: Set<String> = []
    /// A device alerted before anybody answered.
    var hasRung = false
    var answered: AnsweredFacts?
    var connected: (caller: Bool, winner: Bool) = (false, false)
    var connectDeadline = Timestamp(microseconds: 0)
    /// Devices of the callee wait until the first ones have rung.
    var othersWait = false
    var diversions: [DivertedFacts] = []
    /// True times of the diversions.
    var diversionTimes: [Timestamp] = []
    /// All until when it rang.
    var deadlines: [Timestamp] = []
    /// The users of whom a device joined.
    var joined: [String] = []
    /// The devices that joined before anybody answered.
    var rungFirst: Set<Who> = []
    var moves: [MovedFacts] = []
    var transfers: [TransferFacts] = []
    var legEnds: [String: LegEnd] = [:]
    /// The devices that declined for themselves.
    var declinedHere: Set<Who> = []
    var lostUntil: (caller: Timestamp?, winner: Timestamp?) = (nil, nil)
    var ended: EndedFacts?
    /// The stream of records has one of it.
    var isRecorded = false
    /// The sides whose histories have it.
    var rememberedBy: Set<HistorySide> = []
    /// The users whose histories have it.
    var usersWithHistory: [String] = []
    /// The events of it that the stream has for webhooks.
    var events: AppEventKinds = []
    /// True times.
    var placedAt: Timestamp?
    var endedAt: Timestamp?
    var answeredAt: Timestamp?
    var moveTimes: [Timestamp] = []
    /// When its caller's device received the answer last.
    var callerToldAt: Timestamp?
    /// When it stopped ringing.
    var overAt: Timestamp? { answeredAt ?? endedAt ?? toldOverAt }
    var pushed: [String: Set<PushPurpose>] = [:]
    /// The pushes of devices' earlier parts in the call, before a transfer rang them again, and how these parts had ended.
    var pushedBefore: [String: Set<PushPurpose>] = [:]
    var endsBefore: [Who: [CallEnd<Who>]] = [:]

    var shard = 0
    /// All who have, had, or may get a part in it.
    var users: [String] = []

    // From devices.
    var caller: Who?
    var placeSentAt: Timestamp?
    /// How long it is to ring, in seconds, as devices said when they placed it; 0: they chose nothing.
    var ringsChosen: Set<UInt32> = []
    /// How often devices sent that it be placed.
    var placesSent = 0
    /// The replies of the app's hook about it.
    var hookReplies: [HookReply] = []
    /// The caller's app was started again since it placed the call, and does not wait for the reply.
    var callerForgot = false
    var accepted = false
    // Where no journal is read: when its caller learned that it is placed, when a device learned first that it rings no
    // more, or of its end, and the latest deadline that a device has.
    var acceptedAt: Timestamp?
    var toldOverAt: Timestamp?
    var endToldAt: Timestamp?
    var toldDeadline: Timestamp?
    /// The client reported the place as failed after its last retry. The cluster may still take it
    /// (docs/reliability.md).
    var givenUp = false
    var winner: Who?
    var answeredBy: Who?
    var end: CallEnd<Who>?
    /// The call that goes on, since this one gave way, as a device knows.
    var survivor: CallID?
    var told: [Who: Told] = [:]
    /// Each device's commands that can end the call, or its part in it.
    var acts: [Who: CallActs] = [:]
    /// Answers to the first ringing that are to be judged.
    var answersSent: [Who: SentAnswer] = [:]
    /// Signals of the two sides of the answered call that have not arrived.
    var signalsSent: [SentSignal] = []
    /// All that were ever sent: one may be sent again after it has arrived.
    var signalsNoted: Set<String> = []
    /// Devices whose apps were started again since they had a part in it.
    var restarted: Set<Who> = []
    /// The transfers that devices asked for and that the journal does not have yet.
    var transfersAsked: [(who: Who, request: TransferRequest)] = []
    /// It is no longer with the devices that it rang first.
    var leftItsDevices = false
    /// A side's session may have broken: a new owner presumes that without a record.
    var mayBeLost = false
    var epoch: UInt64 = 0

    /// The caller and the winner by the journal.
    var journalCaller: Who? { placed.map { Who($0.caller) } }
    var journalWinner: Who? { answered.map { Who($0.by) } }
    var isConnected: Bool { connected.caller && connected.winner }

    /// - Parameter isRepeated: it was sent before, under the same number.
    mutating func note(_ command: ClientCommand, by who: Who, isRepeated: Bool = false) {
      guard case .call(_, let verb) = command else { return }
      acts[who, default: []].formUnion(CallActs(verb))
      if case .transfer(let request) = verb, !isRepeated { transfersAsked.append((who, request)) }
    }
  }

  struct Told: Sendable {
    var events: [UInt64: Delivery.Event] = [:]
    var highest: UInt64 = 0
    var invited = false
    /// When it got its last invite.
    var invitedAt: Timestamp?
    var won = false
    /// It knows that it has a side that it took over.
    var tookOver = false
    var end: CallEnd<Who>?
    var endVersion: UInt64?
    var signals: [UInt64: String] = [:]
    /// By index, the other side's moves that it was notified of.
    var moves: Set<Int> = []
    /// By index, transfers of which it knows that the call was not taken.
    var transfers: Set<Int> = []
    /// The app was started again.
    var forgot = false
    var app = App()
  }

  struct App: Sendable {
    var invited = false
    var answered = false
    var won = false
    var stopped = false
    /// By sender.
    var signals: [Who: ReceivedSignals] = [:]
  }

  struct Asked: Sendable {
    var command: ClientCommand
    var at: Timestamp
    var firstReply: ServerReply?
  }

  struct Link: Sendable {
    var who: Who
    var edge = ""
    var waiting: [UInt64: Timestamp] = [:]
    /// When the device received the reply to its attach; nil: it may not be attached here.
    var attachedAt: Timestamp?
    var disturbedAt: Timestamp?
    /// The user's calls as they were last sent here; nil: the device did not ask, or its app does not have that.
    var ongoing: OngoingCalls?
    /// When the session here had learned its user's newest name, how many names that had had, and by whom it learned it.
    var named: (names: Int, since: Timestamp, epoch: UInt64)?
    /// The state of the user's history as it was last sent here; nil: it was not.
    var history: HistoryState?
  }

  struct Owner: Sendable {
    var epoch: UInt64
    var node: String
    var since: Timestamp
  }

  struct Registered: Sendable {
    var stored = false
    /// Acknowledged, and not removed since.
    var acknowledged = false
    /// When a device asked for the removal, or a newer registration replaced it.
    var removalAskedAt: Timestamp?

    /// A removal may be retransmitted several times before it is carried out.
    func mayGo(at now: Timestamp) -> Bool {
      removalAskedAt.map { now < $0 + .seconds(40) } ?? false
    }
  }
}
