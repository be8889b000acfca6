// Which values a schedule offers to the tuner, and what a record changes.
#include "codegen/schedule/core/Knobs.h"
#include "gtest/gtest.h"

using namespace knapper;

namespace {

struct TileConfig {
  int64_t rows = 48, columns = 16;
  bool stream = false;
  int64_t fixed = 1; ///< has no row in the space

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("tile_m", c.rows, none, true);
    visit("tile_n", c.columns, none, true);
    visit("stream", c.stream, false, true);
    visit("fixed", c.fixed, none, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.rows, {2 * c.rows, c.rows / 2});
    visit(c.columns, {c.rows, 16, 64});
  }
};

using Values = std::vector<int64_t>;

TEST(Space, IsOfTheFieldAndOfWhatIsDecidedBefore) {
  TileConfig config;
  EXPECT_EQ(config::spaceOf(config, config.rows), (Values{96, 24}));
  config.rows = 8;
  EXPECT_EQ(config::spaceOf(config, config.columns), (Values{8, 16, 64}));
  EXPECT_EQ(config::spaceOf(config, config.stream), (Values{0, 1}));
  EXPECT_EQ(config::spaceOf(config, config.fixed), Values{});
}

TEST(Knobs, OfferTheSpaceUnderTheFieldsKey) {
  Knobs knobs;
  TileConfig config;
  knobs.tune(config, config.rows);
  knobs.tune(config, config.columns);
  knobs.tune(config, config.stream);
  EXPECT_EQ(config.rows, 48);
  EXPECT_EQ(config.columns, 16);
  EXPECT_FALSE(config.stream);
  ASSERT_EQ(knobs.all().size(), 3u);
  EXPECT_EQ(knobs.all()[0].name, "tile_m");
  EXPECT_EQ(knobs.all()[0].model, 48);
  EXPECT_EQ(knobs.all()[0].others, (Values{96, 24}));
  // What the model takes is no other choice.
  EXPECT_EQ(knobs.all()[1].name, "tile_n");
  EXPECT_EQ(knobs.all()[1].others, (Values{48, 64}));
  EXPECT_EQ(knobs.all()[2].others, Values{1});
  EXPECT_TRUE(knobs.fits());
}

TEST(Knobs, TakeWhatIsRecordedAndOnOffer) {
  Knobs knobs({{"tile_m", 24}, {"stream", 1}});
  TileConfig config;
  knobs.tune(config, config.rows);
  knobs.tune(config, config.columns);
  EXPECT_FALSE(knobs.fits()) << "nobody has asked for 'stream' yet";
  knobs.tune(config, config.stream);
  EXPECT_EQ(config.rows, 24);
  EXPECT_TRUE(config.stream);
  EXPECT_TRUE(knobs.fits());
  // Of the space of columns as it is by then.
  EXPECT_EQ(knobs.all()[1].others, (Values{24, 64}));
  EXPECT_EQ(knobs.all()[0].model, 48);
  EXPECT_EQ(knobs.all()[0].value, 24);
}

TEST(Knobs, LeaveOutWhatTheScheduleForbids) {
  Knobs knobs({{"tile_m", 96}});
  TileConfig config;
  knobs.tune(config, config.rows, [](int64_t other) { return other < 96; });
  EXPECT_EQ(config.rows, 48);
  EXPECT_EQ(knobs.all()[0].others, Values{24});
  EXPECT_FALSE(knobs.fits());
}

TEST(Knobs, OfferedTwiceTheFirstTimeStands) {
  Knobs knobs({{"tile_m", 7}});
  TileConfig config;
  knobs.tune(config, config.rows);
  EXPECT_EQ(config.rows, 48);
  knobs.tune(config, config.rows, {7});
  EXPECT_EQ(config.rows, 7);
  ASSERT_EQ(knobs.all().size(), 1u);
  EXPECT_EQ(knobs.all()[0].others, (Values{96, 24}));
}

} // namespace
