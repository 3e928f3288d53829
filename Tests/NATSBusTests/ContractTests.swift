import CallBus
import CallProcesses
import NATSBus
import Testing

/// One rule of the contract.
struct ContractRule<Bus: ClusterBus>: CustomTestStringConvertible, Sendable {
  var testDescription: String
  var holds: @Sendable (BusContract<Bus>) async throws -> Void

  init(_ name: String, _ holds: @escaping @Sendable (BusContract<Bus>) async throws -> Void) {
    (testDescription, self.holds) = (name, holds)
  }

  static var all: [Self] {
    [
      Self("wildcards") { try await $0.publishesToSubscribersAndWildcards() },
      Self("queue groups") { try await $0.givesEachMessageToOneOfAQueueGroup() },
      Self("read complete") { try await $0.callsReadCompleteAfterHandlers() },
      Self("requests") { try await $0.answersRequests() },
      Self("failing requests") { try await $0.requestsFailClearly() },
      Self("many replies") { try await $0.collectsManyReplies() },
      Self("order") { try await $0.keepsTheOrderOfManyMessages() },
      Self("appends") { try await $0.appends() },
      Self("stale writers") { try await $0.refusesAStaleWriter() },
      Self("purges, streams of one shard") {
        try await $0.purgesButKeepsTheNewest(neighbour: 5, shardCount: 16)
      },
      Self("purges, shared streams") {
        try await $0.purgesButKeepsTheNewest(neighbour: 68, shardCount: 100)
      },
      Self("reads, streams of one shard") { try await $0.readsManyRecordsAtOnce(shardCount: 16) },
      Self("reads, shared streams") { try await $0.readsManyRecordsAtOnce(shardCount: 100) },
      Self("nothing of deletions") { try await $0.keepsNothingOfDeletions() },
      Self("compare and set") { try await $0.comparesAndSets() },
      Self("deletions") { try await $0.deletesAndCreatesAgain() },
      Self("filters") { try await $0.listsEntriesByFilter() },
      Self("lists amid deletions") { try await $0.listsAmidDeletions() },
      Self("watches") { try await $0.watchesWhatIsThereAndWhatChanges() },
      Self("every job once") { try await $0.handsOutEveryJobOnce() },
      Self("ids of jobs") { try await $0.addsAnIdOnce() },
      Self("takers that leave") { try await $0.handsOutAgainWhatATakerLeft() },
      Self("settlements") { try await $0.settlesAsItIsTold() },
      Self("jobs in flight") { try await $0.givesNoMoreThanATakerMayHave() },
      Self("full queues") { try await $0.refusesWhenFull() },
      Self("names of lanes") { try await $0.namesOfLanesAreChecked() },
    ]
  }
}

/// The contract, on the bus in memory.
@Suite(.timeLimit(.minutes(2)))
struct InProcessBusContractTests {
  @Test(arguments: ContractRule<InProcessBus>.all)
  func fulfills(rule: ContractRule<InProcessBus>) async throws {
    let bus = InProcessBus()
    try await rule.holds(BusContract(bus: bus, other: bus))
    await bus.close()
  }
}

/// The contract, on a real server.
@Suite(.timeLimit(.minutes(2)))
struct NATSBusContractTests {
  @Test(arguments: ContractRule<NATSBus>.all)
  func fulfills(rule: ContractRule<NATSBus>) async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let options = NATSOptions(subjects: Subjects(cluster: "test", shardCount: 16))
    let bus = try await NATSBus.connect(url: server.url, name: "one", options: options)
    let other = try await NATSBus.connect(url: server.url, name: "two", options: options)
    try await rule.holds(BusContract(bus: bus, other: other))
    await bus.close()
    await other.close()
  }
}
